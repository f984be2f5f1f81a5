"""What a database knows of its tables: columns with their numbers, keys, and what cannot be
captured, with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from riverrun.capture.values import Kind, form_of
from riverrun.errors import DatabaseError
from riverrun.schema import Column as SchemaColumn
from riverrun.schema import Schema
from riverrun.sinks.postgresql.types import schema_type

Connection = psycopg.Connection[Any]

DEFAULT_SCHEMA = "public"


@dataclass(frozen=True)
class Column:
    """A column, known by its number: names may be given anew."""

    number: int
    name: str
    type: int
    """The object id of its type."""


@dataclass(frozen=True)
class TableFacts:
    """A table as it is now."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    types: tuple[str, ...]
    """As PostgreSQL names them."""
    key: tuple[str, ...]
    identity: str
    large: bool
    """Whether it may hold values that the log leaves out when they stay as they were."""
    partitioned: bool
    rows: int | None
    """An estimate; None if the database has not counted yet."""
    file: int | None
    """Another one when the table is written anew, which the log does not tell."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def incomplete(self) -> bool:
        """Whether the log does not have all values of a row that changes."""
        return self.large and self.identity != "f"

    def typed(self) -> Schema:
        """Its columns in DuckDB's types."""
        pairs = zip(self.columns, self.types, strict=True)
        return Schema(tuple(SchemaColumn(c.name, duck_type(type)) for c, type in pairs))


def duck_type(type: str) -> str:
    """What records hold a column as: bytes are base64, JSON inside of arrays is text."""
    found = schema_type(type)
    return "VARCHAR".join(found.rsplit("JSON", 1)) if found == "JSON[]" else _readable(found)


def _readable(type: str) -> str:
    return type.replace("BLOB", "VARCHAR").replace("UUID", "VARCHAR")


def with_schema(table: str) -> str:
    """`users` is `public.users`."""
    return table if "." in table else f"{DEFAULT_SCHEMA}.{table}"


_TABLE = """
SELECT c.oid, c.relkind::text, c.relreplident::text, c.relpersistence::text,
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END,
       EXISTS (SELECT FROM pg_class each WHERE each.reltoastrelid <> 0 AND (each.oid = c.oid
               OR each.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))),
       pg_relation_filenode(c.oid)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_COLUMNS = """
SELECT attnum, attname, atttypid::bigint, format_type(coalesce(nullif(t.typbasetype, 0), atttypid),
       CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE atttypmod END)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND CASE WHEN %s THEN i.indisreplident ELSE i.indisprimary END
  AND k.place <= i.indnkeyatts
ORDER BY k.place
"""


def facts(connection: Connection, table: str) -> TableFacts:
    """A table that can be captured; the error says what to do with one that cannot."""
    schema, _, name = with_schema(table).partition(".")
    found = connection.execute(_TABLE, (schema, name)).fetchone()
    if found is None:
        raise DatabaseError(
            f"there is no table {schema}.{name}", hint=_similar(connection, schema, name)
        )
    oid, kind, identity, persistence, rows, large, file = found
    if kind not in ("r", "p") or persistence != "p":
        raise DatabaseError(
            f"{schema}.{name} cannot be captured",
            got="it is a view, a foreign table, or one whose changes are not logged",
            hint="capture the tables that it is made of",
        )
    found_columns = connection.execute(_COLUMNS, (oid,)).fetchall()
    key = connection.execute(_KEY, (oid, identity == "i")).fetchall()
    _refuse(f"{schema}.{name}", key, identity)
    return TableFacts(
        oid,
        schema,
        name,
        tuple(Column(number, column, type) for number, column, type, _ in found_columns),
        tuple(type for *_, type in found_columns),
        tuple(column for (column,) in key),
        identity,
        large,
        kind == "p",
        rows,
        file,
    )


def columns(connection: Connection, oid: int) -> tuple[Column, ...]:
    """The columns of a table as they are now; none if it is gone."""
    found = connection.execute(_COLUMNS, (oid,))
    return tuple(Column(number, name, type) for number, name, type, _ in found)


def _refuse(table: str, key: list[Any], identity: str) -> None:
    if not key:
        raise DatabaseError(
            f"{table} has no key: its rows cannot be told apart",
            hint=f"ALTER TABLE {table} ADD PRIMARY KEY (…); or, with a unique index over columns "
            f"that are not null, ALTER TABLE {table} REPLICA IDENTITY USING INDEX …",
        )
    if identity == "n":
        raise DatabaseError(
            f"{table} tells nothing of rows that change",
            got="its REPLICA IDENTITY is NOTHING",
            hint=f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT",
        )


def _similar(connection: Connection, schema: str, name: str) -> str:
    query = "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    found = connection.execute(f"{query} WHERE relname = %s AND relkind IN ('r', 'p')", (name,))
    schemas = [each for (each,) in found if each != schema]
    if schemas:
        return f"there is {schemas[0]}.{name}: name its schema, too"
    return "create it first; a table is named as the database has it, small letters mostly"


_TYPE = """
SELECT typtype::text, typbasetype::bigint, typcategory::text, typelem::bigint, typdelim::text
FROM pg_type WHERE oid = %s
"""


class Kinds:
    """How values of types are written, by their object ids."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.known: dict[int, Kind] = {}

    def of(self, type: int) -> Kind:
        if type not in self.known:
            self.known[type] = self._found(type)
        return self.known[type]

    def _found(self, type: int) -> Kind:
        row = self.connection.execute(_TYPE, (type,)).fetchone()
        if row is None:  # dropped since: its values are text anyway
            return Kind("text")
        typtype, base, category, item, delimiter = row
        if typtype == "d":
            return self.of(base)
        if category == "A" and item:
            return Kind(self.of(item).form, array=True, delimiter=self._delimiter(item, delimiter))
        return Kind(form_of(type))

    def _delimiter(self, item: int, otherwise: str) -> str:
        row = self.connection.execute(_TYPE, (item,)).fetchone()
        return str(row[4]) if row else otherwise


def named(table: str) -> sql.Identifier:
    return sql.Identifier(*with_schema(table).split(".", 1))
