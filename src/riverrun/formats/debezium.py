"""Debezium's envelopes: what was done to a row, how it was before and after, when, and by whom.

With or without their schema part. Where that says how numbers are meant, it is believed; without
it, a number is in microseconds, and that of a date in days.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.debezium_values import Kind, kinds_of, meant, read_as, seen
from riverrun.formats.format import Format
from riverrun.formats.json import Json
from riverrun.formats.query import arrow_schema, run
from riverrun.schema import Column, Schema, literal, quoted

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a large value that did not change, and that the database's log does not carry."""
_FORMS = (
    json.dumps(UNAVAILABLE),
    json.dumps([UNAVAILABLE], separators=(",", ":")),
    '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',  # of bytes
    json.dumps(list(UNAVAILABLE.encode()), separators=(",", ":")),  # of a list of numbers
)
_HINTS = (UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ", "95,95,100,101,98")

SHAPE = {
    "op": "VARCHAR",
    "before": "JSON",
    "after": "JSON",
    "source": {"lsn": "BIGINT", "txId": "BIGINT", "ts_us": "BIGINT", "ts_ms": "BIGINT"},
}
WRAPPED = {**SHAPE, "payload": "JSON"}

OWN = {
    "_operation": "e.op",
    "_lsn": "e.source.lsn",
    "_transaction": "e.source.txId",
    "_commit_time": "make_timestamp(coalesce(e.source.ts_us, e.source.ts_ms * 1000))",
}
"""What a schema may name beside the columns of the row."""

_DONE = "CASE e.op WHEN 'd' THEN coalesce(e.before, '{}') WHEN 't' THEN '{}' ELSE e.after END"
_CAUSE = (
    "CASE WHEN NOT json_valid(text) THEN 'the value is not JSON' "
    "WHEN e.op IS NULL THEN 'the value is no envelope of Debezium: it has no op' "
    "WHEN e.op NOT IN ('c', 'u', 'd', 'r', 't') THEN 'op is none of c, u, d, r and t: ' || e.op "
    f"WHEN {_DONE} IS NULL THEN 'op is ' || e.op || ', but there is no row after it' END"
)


class Debezium(Format):
    """A row is what stands after the change; a delete has what its key needs."""

    name = "debezium"
    time = "_commit_time"
    marks: ClassVar[Mapping[str, str]] = {
        "__kept": "VARCHAR[]",
        "__truncated": "BOOLEAN",
        "_commit_time": "TIMESTAMP",
    }

    def decode(self, records: pa.Table, columns: Schema, *, key: tuple[str, ...] = ()) -> pa.Table:
        opened = _opened(records["__value"])
        if opened["schema"].null_count == opened.num_rows:
            return _rows(opened, columns, {})
        coded = opened["schema"].combine_chunks().dictionary_encode()
        parts = []
        for number, schema in enumerate([*coded.dictionary.to_pylist(), None]):
            mine = pc.equal(pc.fill_null(coded.indices, len(coded.dictionary)), number)
            part = _rows(opened.filter(mine), columns, kinds_of(schema))
            places = pc.indices_nonzero(mine).cast(pa.int64())
            parts.append(part.append_column("__place", places))
        found = pa.concat_tables(parts).sort_by("__place")
        return found.drop_columns(["__place"])

    def encode(self, rows: pa.Table, columns: Schema) -> pa.Array:
        after = Json().encode(rows, columns).cast(pa.string())
        return pc.binary_join_element_wise('{"op":"u","before":null,"after":', after, "}", "")

    def encode_key(self, rows: pa.Table, columns: Schema, *, table: bool) -> pa.Array:
        return Json().encode(rows, columns)

    def decode_key(self, found: pa.Array, columns: Schema) -> pa.Table:
        """Debezium's keys are objects, perhaps with their schema; others write plain ones."""
        plain = super().decode_key(found, columns)
        texts = run(
            "SELECT CASE WHEN json_valid(k) AND json_type(k) = 'OBJECT' THEN "
            "coalesce(json_extract(k, '$.payload')::VARCHAR, k) END AS __value "
            "FROM (SELECT TRY(decode(__key)) AS k FROM lot)",
            lot=pa.table({"__key": found}),
        )
        if texts["__value"].null_count == texts.num_rows:
            return plain
        read = _read(texts["__value"], columns, {})
        for place, name in enumerate(columns.names):
            as_object = pc.is_valid(texts["__value"])
            chosen = pc.if_else(as_object, read[name], plain[name].cast(read[name].type))
            plain = plain.set_column(place, name, chosen)
        return plain


def _opened(values: pa.ChunkedArray) -> pa.Table:
    """Envelopes: `row` in JSON, `kept` unknown yet, what stands beside the row, and `cause`."""
    lot = run(
        f"SELECT text, NULL::VARCHAR AS schema, {_transform(WRAPPED)} AS e "
        "FROM (SELECT TRY(decode(v)) AS text FROM lot)",
        lot=pa.table({"v": values}),
    )
    if pc.struct_field(lot["e"], "payload").null_count < lot.num_rows:
        lot = run(
            f"SELECT text, schema, {_transform(SHAPE)} AS e FROM (SELECT e.payload AS text, "
            "json_extract(text, '$.schema')::VARCHAR AS schema FROM lot)",
            lot=lot,
        )
    own = ", ".join(f"{expression} AS {quoted(name)}" for name, expression in OWN.items())
    return run(
        f"SELECT {_DONE}::VARCHAR AS row, schema, {own}, {_CAUSE} AS cause FROM lot", lot=lot
    )


def _transform(shape: Mapping[str, Any]) -> str:
    return f"TRY(json_transform(text, {literal(json.dumps(shape))}))"


def _rows(opened: pa.Table, columns: Schema, kinds: Mapping[str, Kind]) -> pa.Table:
    """The declared columns of envelopes that have one schema, or none."""
    inside = Schema(tuple(each for each in columns.columns if each.name not in OWN))
    texts, kept = _available(opened["row"], inside)
    found = _read(texts, inside, kinds)
    operation = opened["_operation"]
    own = {
        **{name: opened[name] for name in OWN},
        "__cause": pc.coalesce(opened["cause"], found["__cause"]),
        "__gone": pc.fill_null(pc.is_in(operation, pa.array(["d", "t"])), False),
        "__truncated": pc.fill_null(pc.equal(operation, "t"), False),
        "__kept": kept,
    }
    found = found.drop_columns(["__cause"])
    for name, values in own.items():
        found = found.append_column(name, values)
    return found


def _available(texts: pa.ChunkedArray, columns: Schema) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Rows without the values that are not there, and the names of those, null where all are."""
    some = [pc.any(pc.match_substring(texts, hint)).as_py() for hint in _HINTS]
    if not any(some):
        return texts, pa.chunked_array([pa.nulls(len(texts), pa.list_(pa.string()))])
    forms = ", ".join(map(literal, _FORMS))
    names = ", ".join(
        f"CASE WHEN json_extract(row, {_path(each)})::VARCHAR IN ({forms}) "
        f"THEN {literal(each.name)} END"
        for each in columns.columns
    )
    without = "list_aggregate(list_transform(kept, lambda x: to_json(x) || ':null'), 'string_agg')"
    found = run(
        f"SELECT CASE WHEN len(kept) > 0 THEN json_merge_patch(row, '{{' || {without} || '}}') "
        "ELSE row END::VARCHAR AS row, CASE WHEN len(kept) > 0 THEN kept END AS kept "
        f"FROM (SELECT row, list_filter([{names}], lambda x: x IS NOT NULL) AS kept FROM lot)",
        lot=pa.table({"row": texts}),
    )
    return found["row"], found["kept"]


def _path(column: Column) -> str:
    return literal(f'$."{column.name}"')


def _read(texts: pa.ChunkedArray, columns: Schema, kinds: Mapping[str, Kind]) -> pa.Table:
    """The columns of rows in JSON, and `__cause`; what does not fit the ways of the first is read
    again by itself: what numbers mean may change in the middle of a topic."""
    known = kinds or seen(texts, columns)
    as_written = Schema(
        tuple(Column(c.name, read_as(c, known.get(c.name))) for c in columns.columns)
    )
    found = Json().read(pa.table({"__value": texts}), as_written)
    for place, column in enumerate(columns.columns):
        if column.name in known:
            found = meant(found, place, column, known[column.name])
    types = arrow_schema(columns).append(pa.field("__cause", pa.string()))
    found = found.select(types.names).cast(types)
    wrong = pc.is_valid(found["__cause"])
    places = pc.indices_nonzero(wrong)
    if kinds or not 0 < len(places) < len(texts):
        return found
    again = _read(texts.filter(wrong), columns, kinds)
    back = pa.concat_tables([found, again])
    turn = pc.add(pc.cumulative_sum(wrong.cast(pa.int64())), len(texts) - 1)
    return back.take(pc.if_else(wrong, turn, pa.array(range(len(texts)), pa.int64())))
