"""A table of an SQLite file made anew in a temporary one, then brought in line in one transaction.

Temporary tables are in a file that has no name: however the process ends, it is gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from riverrun.outputs import Evaluator, OutputSpec, Owner, Renewal, Swapped
from riverrun.schema import quoted
from riverrun.sinks.database import VERSION

FRESH = "temp.riverrun_fresh"

Loaded = Callable[[pa.Table, Evaluator], tuple[pa.Table, pa.Table | None]]
"""From changes to the rows to put there, as SQLite takes them, and the keys of those that go."""


class SqliteRenewal(Renewal):
    def __init__(
        self, own: sqlite3.Connection, output: OutputSpec, owner: Owner, table: str, loaded: Loaded
    ) -> None:
        self.own, self.output, self.owner = own, output, owner
        self.table, self.loaded = table, loaded
        self.names = ", ".join(map(quoted, output.schema.names))
        self.same = " AND ".join(f"own.{quoted(n)} IS new.{quoted(n)}" for n in output.key)
        own.execute(
            f"CREATE TEMPORARY TABLE riverrun_fresh AS SELECT {self.names} FROM {table} LIMIT 0"
        )
        keys = ", ".join(map(quoted, output.key))
        own.execute(f"CREATE INDEX temp.riverrun_fresh_key ON riverrun_fresh ({keys})")

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        put, gone = self.loaded(rows, evaluator)
        with self._transaction("BEGIN") if not self.own.in_transaction else nullcontext():
            self._take_away(put)
            if gone is not None:
                self._take_away(gone)
            values = ", ".join("?" for _ in put.column_names)
            names = ", ".join(map(quoted, put.column_names))
            insert = f"INSERT INTO {FRESH} ({names}) VALUES ({values})"
            self.own.executemany(insert, _rows(put, put.column_names))

    def _take_away(self, rows: pa.Table) -> None:
        key = [name for name in rows.column_names if name in self.output.key]
        same = " AND ".join(f"{quoted(name)} IS ?" for name in key)
        self.own.executemany(f"DELETE FROM {FRESH} WHERE {same}", _rows(rows, key))

    @contextmanager
    def held(self) -> Iterator[int | None]:
        with self._transaction("BEGIN IMMEDIATE"):
            last = "SELECT coalesce(max(batch), -1) FROM riverrun_progress WHERE checkpoint = ?"
            yield self.own.execute(last, (self.owner.checkpoint,)).fetchone()[0]

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self.own.execute(begin)
        try:
            yield
        except BaseException:
            if self.own.in_transaction:
                self.own.execute("ROLLBACK")
            raise
        self.own.execute("COMMIT")

    def swap(self, tick: int) -> Swapped:
        removed = self._count(
            f"DELETE FROM {self.table} AS own WHERE NOT EXISTS"
            f" (SELECT 1 FROM {FRESH} AS new WHERE {self.same})"
        )
        others = [quoted(n) for n in self.output.schema.names if n not in self.output.key]
        changed = 0
        if others:
            new = ", ".join(f"{name} = new.{name}" for name in others)
            unlike = " OR ".join(f"own.{name} IS NOT new.{name}" for name in others)
            changed = self._count(
                f"UPDATE {self.table} AS own SET {new}, {VERSION} = {tick} FROM {FRESH} AS new"
                f" WHERE {self.same} AND ({unlike})"
            )
        added = self._count(
            f"INSERT INTO {self.table} ({self.names}, {VERSION})"
            f" SELECT {self.names}, {tick} FROM {FRESH} AS new"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self.table} AS own WHERE {self.same})"
        )
        return Swapped(added, changed, removed)

    def _count(self, statement: str) -> int:
        return self.own.execute(statement).rowcount


def _rows(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))
