"""Debezium's envelopes: what was done to a row, how it was before and after, when, and by whom.

With or without their schema part. Where that says how numbers are meant, it is believed; without
it, a number is in microseconds, and that of a date in days.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import BEFORE, TRUNCATED
from riverrun.formats.debezium_values import (
    Kind,
    kinds_of,
    meant,
    read_as,
    seen,
    with_kinds,
    written,
)
from riverrun.formats.format import Format
from riverrun.formats.json import Json, texts_of
from riverrun.formats.query import arrow_schema, in_groups, replaced, run
from riverrun.schema import Column, Schema, literal, quoted

UNAVAILABLE = "__debezium_unavailable_value"
"""Stands for a large value that did not change, and that the database's log does not carry."""
_TEXTS = (UNAVAILABLE, b64encode(UNAVAILABLE.encode()).decode(), UNAVAILABLE.encode().hex())
"""As text, and of bytes as connectors may write them."""
_NUMBERS = json.dumps(list(UNAVAILABLE.encode()), separators=(",", ":"))
"""In place of a list of numbers."""
_FORMS = (
    *map(json.dumps, _TEXTS),
    json.dumps([UNAVAILABLE], separators=(",", ":")),
    json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":")),  # of pairs (hstore)
    _NUMBERS,
)
_HINTS = (*(text.rstrip("=") for text in _TEXTS), _NUMBERS[1:17])

SHAPE = {
    "op": "VARCHAR",
    "before": "JSON",
    "after": "JSON",
    "source": {"lsn": "BIGINT", "txId": "BIGINT", "ts_us": "BIGINT", "ts_ms": "BIGINT"},
}
WRAPPED = {"payload": "JSON", "schema": "JSON"}

OWN = {
    "_operation": "e.op",
    "_lsn": "e.source.lsn",
    "_transaction": "e.source.txId",
    "_commit_time": "make_timestamp(coalesce(e.source.ts_us, e.source.ts_ms * 1000))",
}
"""What a schema may name beside the columns of the row."""

_DONE = "CASE e.op WHEN 'd' THEN coalesce(e.before, '{}') WHEN 't' THEN '{}' ELSE e.after END"
_CAUSE = (
    # what is valid is looked at where there is a doubt: to parse again costs as much as to read
    "CASE WHEN e.op IS NULL AND NOT coalesce(json_valid(text), false) THEN 'the value is not JSON' "
    "WHEN e.op IS NULL THEN 'the value is no envelope of Debezium: it has no op' "
    "WHEN e.op NOT IN ('c', 'u', 'd', 'r', 't') THEN 'op is none of c, u, d, r and t: ' || e.op "
    f"WHEN {_DONE} IS NULL THEN 'op is ' || e.op || ', but there is no row after it' END"
)


def may_lack(row: str) -> str:
    """Whether something in a row hints at a value that is left out, as an expression."""
    hints = " OR ".join(f"contains({row}, {literal(hint)})" for hint in _HINTS)
    return f"coalesce({hints}, false)"


def _parts(beside: Mapping[str, str]) -> str:
    found = {
        "row": f"{_DONE}::VARCHAR",
        "before": "CASE WHEN e.op = 'u' THEN e.before END::VARCHAR",
        "hinted": may_lack("row"),
        "cause": _CAUSE,
    }
    return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in {**found, **beside}.items())


class Debezium(Format):
    """A row is what stands after the change; a delete has what its key needs."""

    name = "debezium"
    time = "_commit_time"
    marks: ClassVar[Mapping[str, str]] = {
        "__kept": "VARCHAR[]",
        BEFORE: "VARCHAR",
        TRUNCATED: "BOOLEAN",
        "_commit_time": "TIMESTAMP",
    }
    shape: ClassVar[Mapping[str, Any]] = SHAPE
    beside: ClassVar[Mapping[str, str]] = OWN
    """What is read beside the row, with its expression."""

    def decode(self, records: pa.Table, columns: Schema, *, key: tuple[str, ...] = ()) -> pa.Table:
        opened = self._opened(records["__value"])
        if opened["schema"].null_count == opened.num_rows:
            return self._rows(opened, columns, {}, key)
        coded = opened["schema"].combine_chunks().dictionary_encode()
        numbers = pc.fill_null(coded.indices, len(coded.dictionary))
        schemas = [*coded.dictionary.to_pylist(), None]
        return in_groups(
            opened,
            numbers,
            lambda part, number: self._rows(part, columns, kinds_of(schemas[number]), key),
        )

    def _opened(self, values: pa.ChunkedArray) -> pa.Table:
        """Envelopes: `row` in JSON, that `before` an update, whether something hints at a value
        that is left out (`hinted`), the `schema` part, what stands beside the row, and `cause`."""
        lot, parts = pa.table({"text": texts_of(values)}), _parts(self.beside)
        found = run(
            f"SELECT {parts}, NULL::VARCHAR AS schema, e.payload IS NOT NULL AS wrapped "
            f"FROM (SELECT text, {_transform({**self.shape, 'payload': 'JSON'})} AS e FROM lot)",
            lot=lot,
        )
        wrapped = found["wrapped"]
        found = found.drop_columns(["wrapped"])
        if not pc.any(wrapped).as_py():
            return found
        inside = run(
            f"SELECT {parts}, schema FROM (SELECT text, schema, {_transform(self.shape)} AS e FROM "
            "(SELECT w.payload::VARCHAR AS text, w.schema::VARCHAR AS schema FROM "
            f"(SELECT {_transform(WRAPPED)} AS w FROM lot)))",
            lot=lot.filter(wrapped),
        )
        return replaced(found, wrapped, inside)

    def _rows(
        self, opened: pa.Table, columns: Schema, kinds: Mapping[str, Kind], key: tuple[str, ...]
    ) -> pa.Table:
        """The declared columns of envelopes that have one schema, or none."""
        inside = Schema(tuple(each for each in columns.columns if each.name not in OWN))
        operation = opened["_operation"]
        texts, kept = available(opened.select(["row", "hinted"]), inside)
        found = read_rows(texts, inside, kinds)
        found = _deleting(found, pc.equal(operation, "d"), texts, inside.only(key), kinds)
        own = {
            **{name: opened[name] for name in self.beside},
            "__cause": pc.coalesce(opened["cause"], found["__cause"]),
            "__gone": pc.fill_null(pc.is_in(operation, pa.array(["d", "t"])), False),
            TRUNCATED: pc.fill_null(pc.equal(operation, "t"), False),
            "__kept": kept,
            BEFORE: with_kinds(opened["before"], kinds),
        }
        found = found.drop_columns(["__cause"])
        for name, values in own.items():
            found = found.append_column(name, values)
        return found

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
        read = read_rows(texts["__value"], columns, {})
        for place, name in enumerate(columns.names):
            as_object = pc.is_valid(texts["__value"])
            chosen = pc.if_else(as_object, read[name], plain[name].cast(read[name].type))
            plain = plain.set_column(place, name, chosen)
        return plain


def _transform(shape: Mapping[str, Any]) -> str:
    return f"TRY(json_transform(text, {literal(json.dumps(shape))}))"


def _deleting(
    found: pa.Table,
    deletes: pa.ChunkedArray,
    texts: pa.ChunkedArray,
    key: Schema,
    kinds: Mapping[str, Kind],
) -> pa.Table:
    """Of a row that is deleted its key is read, whatever else cannot be."""
    unread = pc.fill_null(pc.and_(deletes, pc.is_valid(found["__cause"])), False)
    if not key.columns or not pc.any(unread).as_py():
        return found
    only = read_rows(texts.filter(unread), key, kinds)
    for name in found.column_names:
        if name not in only.column_names:
            only = only.append_column(name, pa.nulls(only.num_rows, found.schema.field(name).type))
    return replaced(found, unread, only.select(found.column_names))


def available(lot: pa.Table, columns: Schema) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Rows without the values that are not there, and the names of those, null where all are."""
    if not pc.any(lot["hinted"]).as_py():
        return lot["row"], pa.chunked_array([pa.nulls(lot.num_rows, pa.list_(pa.string()))])
    forms = ", ".join(map(literal, _FORMS))
    names = ", ".join(
        f"CASE WHEN json_extract(row, {_path(each)})::VARCHAR IN ({forms}) "
        f"THEN {literal(each.name)} END"
        for each in columns.columns
    )
    without = "list_aggregate(list_transform(kept, lambda x: to_json(x) || ':null'), 'string_agg')"
    found = run(
        f"SELECT CASE WHEN len(kept) > 0 THEN json_merge_patch(row, '{{' || {without} || '}}') "
        "ELSE row END::VARCHAR AS row, CASE WHEN len(kept) > 0 THEN kept END AS kept FROM (SELECT "
        f"row, CASE WHEN hinted THEN list_filter([{names}], lambda x: x IS NOT NULL) END AS kept "
        "FROM lot)",
        lot=lot,
    )
    return found["row"], found["kept"]


def _path(column: Column) -> str:
    return literal(f'$."{column.name}"')


def read_rows(texts: pa.ChunkedArray, columns: Schema, kinds: Mapping[str, Kind]) -> pa.Table:
    """The columns of rows in JSON, and `__cause`. Without a schema, they are read as the first ones
    are written; what does not fit is read again, as it is written itself."""
    # that a text is JSON, MariaDB's schema part does not say
    silent = Schema(tuple(c for c in columns.columns if c.type == "JSON" and c.name not in kinds))
    known = {**seen(texts, silent), **kinds} if kinds else seen(texts, columns)
    found = _as(texts, columns, known)
    wrong = pc.is_valid(found["__cause"])
    if kinds or not pc.any(wrong).as_py():
        return found
    left = pa.table({"row": texts.filter(wrong)})
    coded = written(left["row"], columns).combine_chunks().dictionary_encode()
    again = in_groups(
        left, coded.indices, lambda part, _: _as(part["row"], columns, seen(part["row"], columns))
    )
    return replaced(found, wrong, again)


def _as(texts: pa.ChunkedArray, columns: Schema, kinds: Mapping[str, Kind]) -> pa.Table:
    as_written = Schema(
        tuple(Column(c.name, read_as(c, kinds.get(c.name))) for c in columns.columns)
    )
    found = Json().read(pa.table({"__value": texts}), as_written)
    for place, column in enumerate(columns.columns):
        if column.name in kinds:
            found = meant(found, place, column, kinds[column.name])
    types = arrow_schema(columns).append(pa.field("__cause", pa.string()))
    return found.select(types.names).cast(types)
