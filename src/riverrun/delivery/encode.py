"""Rows of an output as records (key and value in JSON text), whole columns at a time."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.outputs import Evaluator, OutputSpec
from riverrun.schema import METADATA, literal, quoted

Line = dict[str, Any]
SECOND = "%Y-%m-%dT%H:%M:%S"


def records(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """`key`, `value` and `timestamp` (ms) as written to Kafka; a deleted row has a null value."""
    key, value = _key_text(output), _object(output.schema.names)
    rows = with_texts(rows)
    if not output.table:
        headers = ", __headers AS headers" if "__headers" in rows.column_names else ""
        time = "epoch_ms(__at) AS timestamp"
        query = f"SELECT {key} AS key, {value} AS value, {time}{headers} FROM rows"
        return evaluator.run(query, rows=rows)
    if pc.min(rows["__op"]).as_py() > 0:
        # nothing is taken back: each key is there once
        query = f"SELECT {key} AS key, {value} AS value, NULL::BIGINT AS timestamp FROM rows"
        return evaluator.run(query, rows=rows)
    # a key's old and new row leave together: only the new one is written
    query = (
        f"SELECT {key} AS key, any_value({value}) FILTER (__op > 0) AS value, "
        "NULL::BIGINT AS timestamp FROM rows GROUP BY key"
    )
    return evaluator.run(query, rows=rows)


def lines(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> list[Line]:
    """Rows for people and tests, each with the place it takes in the defined order."""
    key = _key_json(output)
    order = "[window_us, 0, 0]" if output.table else "[epoch_us(__at), __pos, __sub]"
    window = "window_start::TIMESTAMP" if "window_start" in output.schema else "TIMESTAMP 'epoch'"
    window = f"epoch_us({window})"
    query = (
        f"SELECT {key} AS key, {_object(output.schema.names)} AS value, "
        f"{'__op' if output.table else 1} AS op, "
        f"{'__revision' if output.table else 'NULL'} AS revision, {order} AS place "
        f"FROM (SELECT *, {window if output.table else 0} AS window_us FROM rows)"
    )
    found = evaluator.run(query, rows=with_texts(rows))
    return [_line(output, row) for row in found.to_pylist()]


def _line(output: OutputSpec, row: dict[str, Any]) -> Line:
    line: Line = {
        "output": output.name,
        "op": "+" if row["op"] > 0 else "-",
        "key": json.loads(row["key"]) if row["key"] is not None else None,
        "value": json.loads(row["value"]),
    }
    if output.table:
        line["revision"] = row["revision"]
    line["place"] = (row["place"], row["key"] or "", line["op"] != "-")
    return line


def ordered(found: list[Line]) -> list[Line]:
    """A batch's lines by output; facts by time and position, changes by window, key, `-` first."""
    ranked = sorted(found, key=lambda line: (line["output"], line["place"]))
    return [{name: item for name, item in line.items() if name != "place"} for line in ranked]


def with_texts(rows: pa.Table) -> pa.Table:
    """Timestamps, also in lists and structs, as ISO 8601 text. `__at` stays: it is not written."""
    for place, field in enumerate(rows.schema):
        if field.name != "__at" and _timed(field.type):
            rows = rows.set_column(place, field.name, _texts(rows[field.name].combine_chunks()))
    return rows


def _timed(type: pa.DataType) -> bool:
    if pa.types.is_struct(type):
        return any(_timed(field.type) for field in type)
    listed = pa.types.is_list(type) or pa.types.is_large_list(type)
    return _timed(type.value_type) if listed else pa.types.is_timestamp(type)


def _texts(times: pa.Array) -> pa.Array:
    if pa.types.is_struct(times.type):
        names = [field.name for field in times.type]
        fields = [each if not _timed(each.type) else _texts(each) for each in times.flatten()]
        return pa.StructArray.from_arrays(fields, names=names, mask=times.is_null())
    if not pa.types.is_timestamp(times.type):
        texts = _texts(times.values)
        return type(times).from_arrays(times.offsets, texts, mask=times.is_null())
    coded = times.dictionary_encode()  # windows repeat: each distinct time is written once
    return _instants(coded.dictionary).take(coded.indices)


def _instants(times: pa.Array) -> pa.Array:
    """Distinct times share their seconds, and their fractions: each of those is written once."""
    if times.type.unit != "us":
        return pc.replace_substring(pc.strftime(times, f"{SECOND}Z"), ".000000Z", "Z")
    whole = pc.floor_temporal(times, unit="second")
    seconds = whole.cast(pa.timestamp("s", times.type.tz)).dictionary_encode()
    fractions = pc.subtract(times.cast(pa.int64()), whole.cast(pa.int64())).dictionary_encode()
    digits = pc.utf8_lpad(fractions.dictionary.cast(pa.string()), 6, "0")
    written = pc.binary_join_element_wise(".", digits, "Z", "")
    endings = pc.if_else(pc.equal(fractions.dictionary, 0), "Z", written)
    beginnings = pc.strftime(seconds.dictionary, SECOND)
    return pc.binary_join_element_wise(
        beginnings.take(seconds.indices), endings.take(fractions.indices), ""
    )


def _object(names: tuple[str, ...]) -> str:
    fields = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in names)
    return f"to_json(struct_pack({fields}))::VARCHAR"


def _key_text(output: OutputSpec) -> str:
    """The key as bytes of a record: plain text for one text column, else JSON.

    A table's row whose key is null has a key too, since compacted topics take none without: `null`
    in JSON, and for text, which may be anything else, a zero byte.
    """
    text = len(output.key) == 1 and _type(output.key[0], output) == "VARCHAR"
    key = quoted(output.key[0]) if text else _key_json(output)
    if not output.table:
        return key
    return f"coalesce({key}, {'chr(0)' if text else literal('null')})"


def _type(name: str, output: OutputSpec) -> str:
    """A key may be a column that is not written, such as Kafka's own key."""
    return output.schema.type_of(name) if name in output.schema else dict(METADATA)[name]


def _key_json(output: OutputSpec) -> str:
    if not output.key:
        return "NULL::VARCHAR"
    if len(output.key) == 1:
        return f"to_json({quoted(output.key[0])})::VARCHAR"
    return _object(output.key)
