"""A table, or a view, of an SQLite file that is asked for rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
from riverrun.sinks.sqlite_file import affinity, schema_type

LOCKED = 5.0
"""Seconds that a file which is just being written is waited for."""


@dataclass(frozen=True)
class SqliteTable(DatabaseTable):
    table: str
    file: Path

    kind = "SQLite"

    @property
    def where(self) -> str:
        return str(self.file)

    def columns(self) -> dict[str, str]:
        with self._opened() as connection:
            return {name: schema_type(type) for name, type in self._types(connection).items()}

    def unfit_key(self, column: str, type: str) -> str | None:
        with self._opened() as connection:
            found = self._types(connection)[column]
        kinds = {
            "INTEGER": type in WHOLE,
            "NUMERIC": type in WHOLE or type in ("BOOLEAN", "DATE"),
            "TEXT": type in ("VARCHAR", "UUID", "DATE") or type.startswith("ENUM"),
            "BLOB": type in WHOLE or type == "VARCHAR",
            "REAL": False,
        }
        return None if kinds[affinity(found)] else f"it is declared as {found or 'nothing'}"

    def rows(self, question: Question, keys: Sequence[tuple[str, ...]]) -> list[Answer]:
        with self._opened() as connection:
            types = self._types(connection)
            known_columns(types, (*question.on, *question.columns), self)
            kinds = [affinity(types[name]) for name in question.on]
            given = ((n, *map(_key, key, kinds)) for n, key in enumerate(keys))
            places = range(len(question.on))
            connection.execute(f"CREATE TEMP TABLE asked (n, {', '.join(f'k{n}' for n in places)})")
            marks = ", ".join("?" for _ in range(len(places) + 1))
            connection.executemany(f"INSERT INTO asked VALUES ({marks})", given)
            found = connection.execute(_query(self.table, question)).fetchall()
        blobs = [schema_type(types[name]) == "BLOB" for name in question.columns]
        return [Answer(row[0], tuple(map(_text, row[1:], blobs))) for row in found]

    def needs(self) -> frozenset[Need]:
        return frozenset({"one machine"})

    def _types(self, connection: sqlite3.Connection) -> dict[str, str]:
        query = "SELECT name, type FROM pragma_table_xinfo(?)"
        found = connection.execute(query, (self.table,)).fetchall()
        if not found:
            raise self.missing()
        return {name: type.upper() for name, type in found}

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        address = f"file:{quote(str(self.file))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=LOCKED)) as connection:
                connection.execute("PRAGMA temp_store = MEMORY")
                yield connection
        except sqlite3.Error as error:
            # a statement that it cannot run is no outage
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
                raise self.refused(error) from error
            raise Away(one_line(error)) from error


def _query(table: str, question: Question) -> str:
    same = " AND ".join(f"t.{quoted(name)} = asked.k{n}" for n, name in enumerate(question.on))
    cells = "".join(f", t.{quoted(name)}" for name in question.columns)
    # in this order, so that the table's index is used
    own = f"FROM temp.asked CROSS JOIN main.{quoted(table)} AS t"
    return f"SELECT asked.n{cells} {own} WHERE {same} ORDER BY asked.n"


def _key(text: str, kind: str) -> int | str | None:
    """A key as the column has it."""
    if kind == "TEXT":
        return text
    if text in ("true", "false"):
        return int(text == "true")
    if not text.lstrip("-").isdigit():
        return text
    return int(text) if fits_whole(text, 64) else None


def _text(cell: Any, blob: bool) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell.encode().hex() if blob and cell is not None else cell
    if isinstance(cell, bytes):
        return cell.hex() if blob else cell.decode(errors="replace")
    return repr(cell)
