"""Rows of an output as records (key and value in JSON text), whole columns at a time."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec
from riverrun.schema import METADATA, literal, quoted

Line = dict[str, Any]


def records(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """`key`, `value` and `timestamp` (ms) as written to Kafka; a deleted row has a null value."""
    key, value = _key_text(output), _object(output.schema.names, output)
    if not output.table:
        query = f"SELECT {key} AS key, {value} AS value, epoch_ms(__at) AS timestamp FROM rows"
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
    window = "epoch_us(window_start)" if "window_start" in output.key else "0"
    query = (
        f"SELECT {key} AS key, {_object(output.schema.names, output)} AS value, "
        f"{'__op' if output.table else 1} AS op, "
        f"{'__revision' if output.table else 'NULL'} AS revision, {order} AS place "
        f"FROM (SELECT *, {window if output.table else 0} AS window_us FROM rows)"
    )
    return [_line(output, row) for row in evaluator.run(query, rows=rows).to_pylist()]


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


def _object(names: tuple[str, ...], output: OutputSpec) -> str:
    fields = ", ".join(f"{quoted(name)} := {_json_value(name, output)}" for name in names)
    return f"to_json(struct_pack({fields}))::VARCHAR"


def _json_value(name: str, output: OutputSpec) -> str:
    return _with_iso_times(quoted(name), _type(name, output))


def _type(name: str, output: OutputSpec) -> str:
    """A key may be what Kafka knows of a record, which is not among the columns written."""
    return output.schema.type_of(name) if name in output.schema else dict(METADATA)[name]


def _with_iso_times(value: str, type: str) -> str:
    """Timestamps, also those in a list, as text in ISO 8601."""
    if not re.fullmatch(r"TIMESTAMP[\w ]*(\[\])*", type):
        return value
    if type.endswith("[]"):
        return f"list_transform({value}, lambda x: {_with_iso_times('x', type.removesuffix('[]'))})"
    whole, parts = literal("%Y-%m-%dT%H:%M:%SZ"), literal("%Y-%m-%dT%H:%M:%S.%fZ")
    return (
        f"CASE WHEN epoch_us({value}) % 1000000 = 0 THEN strftime({value}, {whole}) "
        f"ELSE strftime({value}, {parts}) END"
    )


def _key_text(output: OutputSpec) -> str:
    """The key as bytes of a record: plain text for one text column, else JSON."""
    if len(output.key) == 1 and _type(output.key[0], output) == "VARCHAR":
        return quoted(output.key[0])
    return _key_json(output)


def _key_json(output: OutputSpec) -> str:
    if not output.key:
        return "NULL::VARCHAR"
    if len(output.key) == 1:
        return f"to_json({_json_value(output.key[0], output)})::VARCHAR"
    return _object(output.key, output)
