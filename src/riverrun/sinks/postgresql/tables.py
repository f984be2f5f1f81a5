"""Tables in PostgreSQL: made from an output's columns, or compared with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg

from riverrun.outputs import OutputSpec
from riverrun.schema import quoted
from riverrun.sinks.database import LONGEST_NAME, VERSION, Clash, refuse_clashes
from riverrun.sinks.postgresql.sink import Postgres
from riverrun.sinks.postgresql.types import column_type, fits

NULLS_NOT_DISTINCT = 150_000
"""The version from which on a unique key may hold nulls, each once."""

FILLED = 50
"""Percent of a page: a row that changes finds room beside itself, and its index stays as it is."""

COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull,
       atthasdef OR attidentity <> '', attgenerated <> '' OR attidentity = 'a'
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
KEYS = """
SELECT array_agg(attname::text), bool_and(attnotnull) OR {nulls}
FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = %s AND indisunique AND indisvalid AND indimmediate
  AND indpred IS NULL AND indexprs IS NULL AND indnkeyatts = indnatts
GROUP BY indexrelid
"""


@dataclass(frozen=True)
class Existing:
    """A column of an existing table."""

    name: str
    type: str
    required: bool
    filled: bool
    """By itself, when no value is given."""
    computed: bool
    """Never given a value."""


def table_name(output: OutputSpec) -> str:
    assert isinstance(output.sink, Postgres)
    return ".".join(quoted(part) for part in output.sink.table.split(".", 1))


def prepare(connection: psycopg.Connection, outputs: Sequence[OutputSpec], where: str) -> None:
    """Compares all tables with the outputs, then makes those that are missing."""
    checked = [(table_name(output), list(_clashes(connection, output))) for output in outputs]
    refuse_clashes(checked, where)
    for output in outputs:
        if _relation(connection, output) is None:
            for statement in creation(output, connection.info.server_version):
                connection.execute(statement)


def creation(output: OutputSpec, version: int = NULLS_NOT_DISTINCT) -> Iterator[str]:
    """The statements that make an output's table."""
    assert isinstance(output.sink, Postgres)
    schema, dot, _ = output.sink.table.rpartition(".")
    if dot:
        yield f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"
    columns = [f"{quoted(name)} {type}" for name, type in _wanted(output)]
    if output.table:
        # a group may be of null: a primary key would refuse it
        nulls = version >= NULLS_NOT_DISTINCT
        columns.append(
            f"{'UNIQUE NULLS NOT DISTINCT' if nulls else 'PRIMARY KEY'} ({_key(output)})"
        )
    room = f" WITH (fillfactor = {FILLED})" if output.table else ""
    yield f"CREATE TABLE {table_name(output)} ({', '.join(columns)}){room}"


def types_of(output: OutputSpec) -> dict[str, str]:
    """The types of an output's columns."""
    found = {column.name: column_type(column.type) or "" for column in output.schema.columns}
    return {**found, VERSION: "bigint"} if output.table else found


def exact(connection: psycopg.Connection, output: OutputSpec) -> bool:
    """Whether the table's columns have these very types, and keep them until the transaction ends.

    Others may hold all values too, but not in the same bytes.
    """
    connection.execute(f"LOCK TABLE {table_name(output)} IN ROW EXCLUSIVE MODE")
    found = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (table_name(output),),
    ).fetchall()
    return set(types_of(output).items()) <= set(found)


def _wanted(output: OutputSpec) -> list[tuple[str, str]]:
    types = types_of(output).items()
    return [(name, f"{type} NOT NULL" if name == VERSION else type) for name, type in types]


def _key(output: OutputSpec) -> str:
    return ", ".join(map(quoted, output.key))


def _relation(connection: psycopg.Connection, output: OutputSpec) -> tuple[int, str] | None:
    """The table's number and kind."""
    return connection.execute(
        "SELECT oid, relkind::text FROM pg_class WHERE oid = to_regclass(%s)",
        (table_name(output),),
    ).fetchone()


def _clashes(connection: psycopg.Connection, output: OutputSpec) -> Iterator[Clash]:
    for name in output.schema.names:
        if len(name.encode()) > LONGEST_NAME:
            yield Clash(f"the column name {name!r} is longer than {LONGEST_NAME} bytes")
    relation = _relation(connection, output)
    if relation is None:
        return
    number, kind = relation
    if kind not in ("r", "p"):
        yield Clash("it is not a table")
        return
    columns = [Existing(*row) for row in connection.execute(COLUMNS, (number,))]
    yield from _column_clashes(output, columns)
    if output.table and not _has_key(connection, number, output):
        unique = f"CREATE UNIQUE INDEX ON {table_name(output)} ({_key(output)}) NULLS NOT DISTINCT;"
        if connection.info.server_version < NULLS_NOT_DISTINCT:
            unique = f"ALTER TABLE {table_name(output)} ADD PRIMARY KEY ({_key(output)});"
        yield Clash(f"the key ({', '.join(output.key)}) is not unique, nulls included", unique)


def _column_clashes(output: OutputSpec, columns: Sequence[Existing]) -> Iterator[Clash]:
    alter = f"ALTER TABLE {table_name(output)}"
    there = {column.name: column for column in columns}
    for name, wanted in _wanted(output):
        type, own = wanted.split(" NOT NULL")[0], quoted(name)
        column = there.pop(name, None)
        if column is None:
            default = " DEFAULT 0" if name == VERSION else ""
            yield Clash(f"no column {name!r}", f"{alter} ADD COLUMN {own} {wanted}{default};")
        elif column.computed:
            yield Clash(f"the column {name!r} is computed by the database")
        elif not fits(type, column.type):
            mend = f"{alter} ALTER COLUMN {own} TYPE {type} USING {own}::{type};"
            yield Clash(f"the column {name!r} is {column.type}, not {type}", mend)
    for column in there.values():
        if column.required and not column.filled:
            yield Clash(
                f"the column {column.name!r} must not be null, and has no default",
                f"{alter} ALTER COLUMN {quoted(column.name)} DROP NOT NULL;",
            )


def _has_key(connection: psycopg.Connection, number: int, output: OutputSpec) -> bool:
    newer = connection.info.server_version >= NULLS_NOT_DISTINCT
    query = KEYS.format(nulls="bool_or(indnullsnotdistinct)" if newer else "false")
    found = connection.execute(query, (number,)).fetchall()
    return any(set(key) == set(output.key) and whole for key, whole in found)
