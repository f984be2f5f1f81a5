"""A table, or a view, of PostgreSQL that is asked for rows."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import psycopg

from riverrun.operators.lookups.database import (
    WHOLE,
    Answer,
    Away,
    DatabaseTable,
    Question,
    fits_whole,
    known_columns,
    one_line,
)
from riverrun.outputs import Need
from riverrun.schema import quoted
from riverrun.sinks.postgresql.connecting import LOST, address, connect
from riverrun.sinks.postgresql.types import schema_type

SESSION = (
    "SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true),"
    " set_config('IntervalStyle', 'postgres', true), set_config('extra_float_digits', '1', true),"
    " set_config('statement_timeout', '60s', true)"
)
"""For one transaction, so that poolers may stand between: how values are written as text."""
COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
BITS = {"smallint": 16, "integer": 32, "bigint": 64}
TEXTS = {"text": "text", "character varying": "text", "character": "bpchar"}
SAME = {
    "uuid": "UUID",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp with time zone": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP",
}


class Session(NamedTuple):
    """A connection of this process, and what it has found of tables."""

    connection: psycopg.Connection
    types: dict[str, dict[str, str]]


_SESSIONS: dict[tuple[int, str], Session] = {}
"""By process and address: a connection does not outlive a fork."""


@dataclass(frozen=True)
class PostgresTable(DatabaseTable):
    table: str
    """`table` or `schema.table`."""
    address: str = field(repr=False)

    kind = "PostgreSQL"

    @cached_property
    def where(self) -> str:
        return address(self.address, "the address of a lookup")

    @property
    def _name(self) -> str:
        return ".".join(quoted(part) for part in self.table.split(".", 1))

    def columns(self) -> dict[str, str]:
        with self._session() as session:
            return {name: schema_type(type) for name, type in self._types(session).items()}

    def unfit_key(self, column: str, type: str) -> str | None:
        with self._session() as session:
            found = self._types(session)[column]
        bare = _bare(found)
        if bare in BITS:
            fits = type in WHOLE
        elif bare == "numeric":
            fits = type in WHOLE or type.startswith("DECIMAL")
        elif bare in TEXTS:
            fits = type == "VARCHAR" or type.startswith("ENUM")
        else:
            fits = SAME.get(bare) == type  # any other: no key
        return None if fits else f"it is {found} in PostgreSQL"

    def rows(self, question: Question, keys: Sequence[tuple[str, ...]]) -> list[Answer]:
        with self._session() as session:
            types = self._types(session)
            known_columns(types, (*question.on, *question.columns), self)
            bare = [_bare(types[name]) for name in question.on]
            asked = [n for n, key in enumerate(keys) if all(map(_possible, key, bare))]
            if not asked:
                return []
            given = {f"k{n}": [keys[a][n] for a in asked] for n in range(len(bare))}
            query = _query(self._name, question, types)
            found = session.connection.execute(query, given).fetchall()
        return [Answer(asked[row[0] - 1], tuple(row[1:])) for row in found]

    def close(self) -> None:
        if session := _SESSIONS.pop((os.getpid(), self.address), None):
            session.connection.close()

    def needs(self) -> frozenset[Need]:
        return frozenset()

    def _types(self, session: Session) -> dict[str, str]:
        if self.table not in session.types:
            found = session.connection.execute(COLUMNS, (self._name,)).fetchall()
            if not found:
                raise self.missing()
            session.types[self.table] = {name: str(type) for name, type in found}
        return session.types[self.table]

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """One transaction that only reads. A connection that fails is not used again."""
        place = (os.getpid(), self.address)
        try:
            if place not in _SESSIONS:
                connection = connect(self.address)
                connection.read_only = True
                _SESSIONS[place] = Session(connection, {})
            session = _SESSIONS[place]
            with session.connection.transaction():
                session.connection.execute(SESSION)
                yield session
        except psycopg.Error as error:
            self.close()
            if isinstance(error, LOST):
                raise Away(one_line(error)) from error
            raise self.refused(error) from error


@atexit.register
def _close_all() -> None:
    """Ends the connections of this process, and none that it has from before a fork."""
    for process, place in list(_SESSIONS):
        if process == os.getpid():
            _SESSIONS.pop((process, place)).connection.close()


def _bare(type: str) -> str:
    return re.sub(r"\([\d,]+\)", "", type)


def _possible(text: str, type: str) -> bool:
    """Whether a value can be in a column: what cannot would be an error, where it is not found."""
    if type in BITS:
        return fits_whole(text, BITS[type])
    return "\x00" not in text


def _query(table: str, question: Question, types: dict[str, str]) -> str:
    """Keys are numbered, and answers have their numbers: what is equal is for the database to say.

    `= ANY` goes down into views, and uses an index.
    """
    keys = [f"%(k{n})s::text[]::{_array(types[name])}" for n, name in enumerate(question.on)]
    own = [f"t.{quoted(name)}" for name in question.on]
    names = ", ".join(f"k{n}" for n in range(len(keys)))
    same = " AND ".join(f"{name} = asked.k{n}" for n, name in enumerate(own))
    some = " AND ".join(f"{name} = ANY({key})" for name, key in zip(own, keys, strict=True))
    cells = [_as_text(f"t.{quoted(name)}", types[name]) for name in question.columns]
    return (
        f"SELECT {', '.join(['asked.n', *cells])} FROM {table} AS t"
        f" JOIN unnest({', '.join(keys)}) WITH ORDINALITY AS asked({names}, n) ON {same}"
        f" WHERE {some} ORDER BY asked.n"
    )


def _array(type: str) -> str:
    bare = _bare(type)
    return f"{TEXTS.get(bare, bare)}[]"  # any other: its own


def _as_text(column: str, type: str) -> str:
    if type.endswith("]"):
        return f"to_json({column})::text"
    if type.startswith(("timestamp", "date")):
        plain = f"({column} AT TIME ZONE 'UTC')" if type.endswith("with time zone") else column
        return f"replace({plain}::text, ' BC', ' (BC)')"  # as DuckDB reads it
    return f"encode({column}, 'hex')" if type == "bytea" else f"{column}::text"
