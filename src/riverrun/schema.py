"""Columns and their types, in DuckDB's names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import duckdb

from riverrun.errors import ProgramError

RESERVED = "__"
"""Columns that start so carry time, position and change marks through a program."""

_PLAIN = re.compile(r"\bTIMESTAMP(_\w+| WITH TIME ZONE)")

METADATA = (
    ("_key", "VARCHAR"),
    ("_headers", "MAP(VARCHAR, VARCHAR)"),
    ("_timestamp", "TIMESTAMP"),
    ("_topic", "VARCHAR"),
    ("_partition", "INTEGER"),
    ("_offset", "BIGINT"),
)
"""What Kafka knows of a record: usable in expressions, not written unless selected."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    hidden: bool = False
    """Usable in expressions, but not written: what Kafka knows of a record."""


@dataclass(frozen=True)
class Schema:
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def visible(self) -> Schema:
        return Schema(tuple(column for column in self.columns if not column.hidden))

    @property
    def with_plain_times(self) -> Schema:
        """As it is after decoding: times are TIMESTAMP, in whatever unit the records have them."""
        return Schema(tuple(replace(c, type=with_plain_times(c.type)) for c in self.columns))

    @property
    def with_metadata(self) -> Schema:
        return Schema(
            (*self.columns, *(Column(name, type, hidden=True) for name, type in METADATA))
        )

    def only(self, names: tuple[str, ...]) -> Schema:
        return Schema(tuple(Column(name, self.type_of(name)) for name in names))

    def type_of(self, name: str) -> str:
        return next(column.type for column in self.columns if column.name == name)

    def ddl(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.columns)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def require(self, name: str, where: object) -> None:
        if name not in self:
            raise ProgramError(
                f"there is no column {name!r}", where=where, hint=self.suggestion(name)
            )

    def expression(self, text: str) -> str:
        """A bare column name may be any word, also one of SQL's."""
        return quoted(text) if text in self else text

    def suggestion(self, name: str) -> str:
        visible = self.visible.names
        close = get_close_matches(name, visible, n=1)
        return (f"did you mean {close[0]!r}? " if close else "") + f"columns: {', '.join(visible)}"


def with_plain_times(type: str) -> str:
    return _PLAIN.sub("TIMESTAMP", type)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def schema_of(pairs: list[tuple[str, str]]) -> Schema:
    return Schema(tuple(Column(name, type) for name, type in pairs))


def parse(ddl: str, where: object = None) -> Schema:
    """`"user string, tags string[], at timestamp"` as a schema."""
    with duckdb.connect() as connection:
        try:
            connection.execute(f"CREATE TEMP TABLE parsed ({_with_quoted_names(ddl)})")
        except duckdb.Error as error:
            raise ProgramError(
                "the schema cannot be read",
                where=where,
                got=f"{ddl!r}: {first_line(error)}",
                hint='write it as "name type, name type", e.g. "user string, at timestamp"',
            ) from error
        rows = connection.execute("DESCRIBE parsed").fetchall()
    schema = schema_of([(row[0], row[1]) for row in rows])
    for column in schema.columns:
        if re.search(r"\b(INTERVAL|UNION|BIT|BLOB|GEOMETRY|VARIANT)\b|TIME WITH", column.type):
            raise ProgramError(
                f"the type of {column.name!r} is not supported",
                where=where,
                got=column.type,
                hint="use string, numbers, boolean, date, time, timestamp, lists, structs or maps",
            )
    for name in schema.names:
        if name.startswith(RESERVED) or name in dict(METADATA):
            raise ProgramError(
                f"the column name {name!r} is reserved", where=where, hint="choose another name"
            )
    return schema


def defaults(ddl: str, where: object = None) -> tuple[Any, ...]:
    """What columns hold that are not given: `"clicks bigint default 0"`. Else they hold null."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE parsed ({_with_quoted_names(ddl)})")
        try:
            connection.execute("INSERT INTO parsed DEFAULT VALUES")
        except duckdb.Error as error:
            raise ProgramError(
                "the defaults cannot be used", where=where, got=f"{ddl!r}: {first_line(error)}"
            ) from error
        return tuple(connection.execute("FROM parsed").fetchall()[0])


def _with_quoted_names(ddl: str) -> str:
    """Names in quotes, so that a column may be called `at` or `order`."""
    words = [field.split(maxsplit=1) for field in fields_of(ddl)]
    return ", ".join(
        " ".join([w[0] if w[0].startswith('"') else quoted(w[0]), *w[1:]]) for w in words if w
    )


def fields_of(ddl: str) -> list[str]:
    """What stands between commas, those in brackets apart."""
    fields, depth, start = [], 0, 0
    for place, sign in enumerate(ddl):
        depth += (sign in "([<") - (sign in ")]>")
        if sign == "," and depth == 0:
            fields.append(ddl[start:place].strip())
            start = place + 1
    return [*fields, ddl[start:].strip()]


def nested(type: str) -> bool:
    """Lists, structs and maps: databases are given them as JSON."""
    return type.endswith("]") or type.startswith(("STRUCT", "MAP"))


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]


def column_list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def plain(expression: str) -> str:
    """A lone column without its quotes."""
    return re.sub(r'^"(\w+)"$', r"\1", expression)


def columns_text(schema: Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.visible.columns)
