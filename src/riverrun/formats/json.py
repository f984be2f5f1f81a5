"""JSON: a record's value is an object, its fields are the columns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa

from riverrun.formats import keys
from riverrun.formats.instants import with_texts
from riverrun.formats.json_checks import incomplete, lost
from riverrun.formats.json_columns import Reader
from riverrun.formats.json_types import object_of
from riverrun.formats.numbers import with_words
from riverrun.formats.query import run
from riverrun.formats.sql import SqlFormat
from riverrun.formats.types import type_tree
from riverrun.schema import Column, Schema, literal, quoted

_JSON = re.compile(r'(?<!")\bJSON\b(?!")')


@dataclass(frozen=True)
class Json(SqlFormat):
    """One object per record; times are ISO 8601 text, or numbers if they are declared so.

    A value that does not fit its type, however deep, is the cause of a dead letter. Lenient, it is
    rounded to an integer, or null inside lists, structs and maps.
    """

    name: str = "json"
    lenient: bool = False
    nested: bool = False
    """Whether columns of JSON are written as they are, not as text."""

    def prepared(self, records: pa.Table, columns: Schema, key: tuple[str, ...]) -> pa.Table:
        return records.append_column("__text", texts_of(records["__value"]))

    def relation(self, columns: Schema, key: tuple[str, ...]) -> str:
        """Values are read in two steps: what the first gives is used several times."""
        readers = {each: Reader(each, self.lenient) for each in columns.columns}
        shape = json.dumps({each.name: reader.read_as for each, reader in readers.items()})
        first = [
            f"{reader.first(f'__parsed.{quoted(each.name)}')} AS {_read(each)}"
            for each, reader in readers.items()
        ]
        then = [
            f"{_column(each, reader, columns.only(key))} AS {quoted(each.name)}"
            for each, reader in readers.items()
        ]
        gone = ", __value IS NULL AS __gone" if key else ""
        return (
            f"SELECT *, {self._cause(columns, table=bool(key))} AS __cause{gone} FROM "
            f"(SELECT *, {', '.join(then)} FROM (SELECT *, {', '.join(first)} FROM (SELECT *, "
            f"TRY(json_transform(__text, {literal(shape)})) AS __parsed FROM lot)))"
        )

    def value(self, columns: Schema) -> str:
        as_json = {c.name for c in columns.columns if self.nested and c.type == "JSON"}
        return object_of(columns.names, as_json)

    def read_back(self, records: pa.Table, columns: Schema, key: tuple[str, ...] = ()) -> pa.Table:
        """A column of JSON is written as its text, and is that text again."""
        if self.nested:
            return self.read(records, columns, key)
        as_text = (Column(c.name, _JSON.sub("VARCHAR", c.type)) for c in columns.columns)
        return self.read(records, Schema(tuple(as_text)), key)

    def shown(self, rows: pa.Table) -> pa.Table:
        return with_words(with_texts(rows))

    def _cause(self, columns: Schema, *, table: bool) -> str:
        """What is wrong with a record, or NULL. Only those with nulls are looked at."""
        checks = [
            *(["WHEN __value IS NULL THEN NULL"] if table else []),
            "WHEN coalesce(__text, '') = '' THEN 'the value is empty or not UTF-8 text'",
            "WHEN NOT json_valid(__text) THEN 'the value is not JSON'",
            "WHEN json_type(__text) <> 'OBJECT' THEN 'the value is not a JSON object'",
        ]
        checks += [f"WHEN {self._lost(each)} THEN {_misfit(each)}" for each in columns.columns]
        missing = " OR ".join(map(self._incomplete, columns.columns))
        return f"CASE WHEN {missing} THEN CASE {' '.join(checks)} END END"

    def causes(self, columns: Schema) -> dict[str, str]:
        """What is wrong with each column, or NULL, over what `relation` gives of objects: its cause
        is the first of them."""
        return {
            each.name: f"CASE WHEN {self._lost(each)} THEN {_misfit(each)} END"
            for each in columns.columns
        }

    def _incomplete(self, column: Column) -> str:
        name = quoted(column.name)
        return f"{name} IS NULL" if self.lenient else incomplete(name, type_tree(column.type))

    def _lost(self, column: Column) -> str:
        name, path = quoted(column.name), f'$."{column.name}"'
        type = type_tree("VARCHAR" if self.lenient else column.type)  # as if it had no inside
        return lost(name, type, "__text", path)


def texts_of(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text, null where they are none. Hardly ever is one: they are looked at together."""
    texts = values.cast(pa.string(), safe=False)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        query = "SELECT TRY(decode(__value)) AS __text FROM lot"
        return run(query, lot=pa.table({"__value": values}))["__text"]
    return texts


def _misfit(column: Column) -> str:
    path = literal(f'$."{column.name}"')
    shown = f"left(json_extract_string(__text, {path}), 100)"
    return f"{literal(f'{column.name} is not a {column.type}: ')} || {shown}"


def _read(column: Column) -> str:
    return quoted(f"__read:{column.name}")


def _column(column: Column, reader: Reader, key: Schema) -> str:
    value = reader.then(_read(column))
    return f"coalesce({value}, {keys.read(key, column)})" if column.name in key else value
