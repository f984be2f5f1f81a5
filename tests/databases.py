"""Databases as tests see them: outputs with their rows, parts to deliver, and what is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Destination, OutputSpec, Part, Sink
from riverrun.schema import parse
from riverrun.sinks import postgres, sqlite
from riverrun.sinks.postgresql.delivery import PostgresDatabase
from riverrun.sinks.sqlite_file import SqliteFile

COUNTS = "page string, n bigint"
PART = Part("shop", checkpoint="c1", run=1, batch=0, task=0, tick=1000)
EVALUATOR = Evaluator()

Change = tuple[int, Any, Any]
"""+1 or -1, a page, and its count."""


@dataclass
class Database:
    """A destination, and a way to ask its database."""

    destination: Destination
    place: str | Path
    others: list[Database] = field(default_factory=list)
    evaluator: Evaluator = field(default_factory=Evaluator)

    def sink(self, table: str) -> Sink:
        return sqlite(self.place, table) if isinstance(self.place, Path) else postgres(table)

    def table(self, name: str = "counts", ddl: str = COUNTS, key: str = "page") -> OutputSpec:
        return OutputSpec(name, self.sink(name), parse(ddl), tuple(key.split()), table=True)

    def stream(self, name: str = "clicks", ddl: str = COUNTS) -> OutputSpec:
        return OutputSpec(name, self.sink(name), parse(ddl), (), table=False)

    def query(self, query: str) -> list[tuple[Any, ...]]:
        if isinstance(self.place, Path):
            with closing(sqlite3.connect(self.place)) as connection, connection:
                return connection.execute(query).fetchall()
        with psycopg.connect(self.place, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def counts(self, table: str = "counts") -> dict[Any, Any]:
        return dict(self.query(f"SELECT page, n FROM {table}"))

    def again(self) -> Database:
        """The same database, as another process finds it."""
        other = Database(type(self.destination)(self.place), self.place)  # type: ignore[call-arg]
        self.others.append(other)
        return other

    def close(self) -> None:
        for each in (self, *self.others):
            if isinstance(each.destination, PostgresDatabase):
                each.destination.close()

    def deliver(self, output: OutputSpec, changes: Iterable[Change], **part: Any) -> None:
        rows = [(output, changed(changes))] if output.table else [(output, added(changes))]
        self.destination.deliver(replace(PART, **part), rows, self.evaluator)


def in_postgres(url: str) -> Database:
    return Database(PostgresDatabase(url), url)


def in_sqlite(file: Path) -> Database:
    return Database(SqliteFile(file), file)


def changed(changes: Iterable[Change]) -> pa.Table:
    """Rows as they leave a table's step."""
    rows = list(changes)
    return pa.table(
        {
            "page": pa.array([page for _, page, _ in rows], pa.large_string()),
            "n": pa.array([n for _, _, n in rows], pa.int64()),
            "__op": pa.array([op for op, _, _ in rows], pa.int8()),
            "__revision": pa.array([len(before) for before in _earlier(rows)], pa.int64()),
        }
    )


def _earlier(rows: list[Change]) -> list[list[Change]]:
    """What a part takes back of each row's page."""
    return [[each for each in rows if each[0] < 0 and each[1] == page] for _, page, _ in rows]


def added(changes: Iterable[Change]) -> pa.Table:
    """Rows as they leave a stream."""
    return changed(changes).drop(["__op", "__revision"])
