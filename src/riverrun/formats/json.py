"""JSON: a record's value is an object, its fields are the columns."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from riverrun.formats import keys
from riverrun.formats.instants import with_texts
from riverrun.formats.json_types import decoded, json_type, object_of
from riverrun.formats.query import run
from riverrun.formats.sql import SqlFormat
from riverrun.schema import Column, Schema, literal, quoted


@dataclass(frozen=True)
class Json(SqlFormat):
    """One object per record; times are ISO 8601 text, or numbers if they are declared so."""

    name = "json"

    def prepared(self, records: pa.Table, columns: Schema, key: tuple[str, ...]) -> pa.Table:
        return records.append_column("__text", _text(records["__value"]))

    def relation(self, columns: Schema, key: tuple[str, ...]) -> str:
        shape = {column.name: json_type(column.type) for column in columns.columns}
        fields = [
            f"{_column(each, columns.only(key))} AS {quoted(each.name)}" for each in columns.columns
        ]
        gone = ", __value IS NULL AS __gone" if key else ""
        return (
            f"SELECT *, {_cause(columns, table=bool(key))} AS __cause{gone} FROM "
            f"(SELECT * EXCLUDE (__parsed), {', '.join(fields)} FROM (SELECT *, "
            f"TRY(json_transform(__text, {literal(json.dumps(shape))})) AS __parsed FROM lot))"
        )

    def value(self, columns: Schema) -> str:
        return object_of(columns.names)

    def shown(self, rows: pa.Table) -> pa.Table:
        return with_texts(rows)


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text, null where they are none. Hardly ever is one: they are looked at together."""
    texts = values.cast(pa.string(), safe=False)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        query = "SELECT TRY(decode(__value)) AS __text FROM lot"
        return run(query, lot=pa.table({"__value": values}))["__text"]
    return texts


def _column(column: Column, key: Schema) -> str:
    value = decoded(f"__parsed.{quoted(column.name)}", column.type)
    return f"coalesce({value}, {keys.read(key, column)})" if column.name in key else value


def _cause(columns: Schema, *, table: bool) -> str:
    """What is wrong with a record, or NULL. Only those with something missing are looked at."""
    checks = [
        *(["WHEN __value IS NULL THEN NULL"] if table else []),
        "WHEN coalesce(__text, '') = '' THEN 'the value is empty or not UTF-8 text'",
        "WHEN NOT json_valid(__text) THEN 'the value is not JSON'",
        "WHEN json_type(__text) <> 'OBJECT' THEN 'the value is not a JSON object'",
    ]
    for column in columns.columns:
        path = literal(f'$."{column.name}"')
        shown = f"left(json_extract_string(__text, {path}), 100)"
        wrong = f"{literal(f'{column.name} is not a {column.type}: ')} || {shown}"
        checks.append(f"WHEN {_lost(column)} THEN {wrong}")
    missing = " OR ".join(map(_incomplete, columns.columns))
    return f"CASE WHEN {missing} THEN CASE {' '.join(checks)} END END"


def _incomplete(column: Column) -> str:
    name = quoted(column.name)
    has_nulls = f" OR list_count({name}) < len({name})" if column.type.endswith("[]") else ""
    return f"{name} IS NULL{has_nulls}"


def _lost(column: Column) -> str:
    """Whether JSON has a value where the column, or an element of its list, is null."""
    name = quoted(column.name)
    field, items = literal(f'$."{column.name}"'), literal(f'$."{column.name}"[*]')
    lost = f"{name} IS NULL AND coalesce(json_type(__text, {field}), 'NULL') <> 'NULL'"
    if not column.type.endswith("[]"):
        return lost
    # an element may be null in JSON too, so those with a value are counted on both sides
    given = f"list_filter(json_extract(__text, {items}), lambda x: json_type(x) <> 'NULL')"
    return f"{lost} OR list_count({name}) < len({given})"
