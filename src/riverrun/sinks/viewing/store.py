"""The database that views are in: SQLite in a file, or PostgreSQL. SQL is written once, with `?`
for values, for both."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import psycopg

from riverrun import private
from riverrun.errors import DatabaseError
from riverrun.outputs import Destination, Sink
from riverrun.schema import quoted
from riverrun.sinks.database import PATIENCE
from riverrun.sinks.postgresql.connecting import address, connect
from riverrun.sinks.postgresql.delivery import PostgresDatabase
from riverrun.sinks.postgresql.sink import Postgres
from riverrun.sinks.sqlite_file import Sqlite, SqliteFile

Kind = Literal["sqlite", "postgres"]
SCHEMA = "views"
"""Of PostgreSQL."""


class Execute(Protocol):
    """Runs a statement, and gives its rows."""

    def __call__(self, sql: str, *values: Any) -> list[tuple[Any, ...]]: ...


class Store(ABC):
    kind: Kind
    where: str
    """For people."""

    @abstractmethod
    def table(self, name: str) -> str:
        """The table of a view, in SQL."""

    @abstractmethod
    def sink(self, name: str) -> Sink:
        """What writes the table of a view."""

    @abstractmethod
    def own(self, name: str) -> Sink:
        """What writes a table that is ours."""

    @abstractmethod
    def writer(self) -> Destination: ...

    @abstractmethod
    def transaction(self) -> Any:
        """A context with an `Execute`: all that it does takes effect, or nothing."""


class SqliteStore(Store):
    kind: Kind = "sqlite"

    def __init__(self, file: Path) -> None:
        self.file, self.where = file, str(file)

    def table(self, name: str) -> str:
        return quoted(name)

    def sink(self, name: str) -> Sink:
        return Sqlite(self.file, name)

    def own(self, name: str) -> Sink:
        return Sqlite(self.file, name)

    def writer(self) -> Destination:
        return SqliteFile(self.file)

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        try:
            private.folder(self.file.parent)
            with closing(sqlite3.connect(self.file, timeout=PATIENCE, isolation_level=None)) as own:

                def execute(sql: str, *values: Any) -> list[tuple[Any, ...]]:
                    return own.execute(sql, values).fetchall()

                own.execute("PRAGMA journal_mode=WAL")
                own.execute("BEGIN IMMEDIATE")
                yield execute
                own.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise DatabaseError("SQLite refuses", where=self.file, got=error) from error


class PostgresStore(Store):
    kind: Kind = "postgres"

    def __init__(self, url: str) -> None:
        self.url, self.where = url, address(url)

    def table(self, name: str) -> str:
        return f"{SCHEMA}.{quoted(name)}"

    def sink(self, name: str) -> Sink:
        return Postgres(f"{SCHEMA}.{name}")

    def own(self, name: str) -> Sink:
        return Postgres(name)

    def writer(self) -> Destination:
        return PostgresDatabase(self.url)

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        try:
            with connect(self.url) as own, own.transaction():

                def execute(sql: str, *values: Any) -> list[tuple[Any, ...]]:
                    found = own.execute(in_postgres(sql), values)
                    return found.fetchall() if found.description else []

                yield execute
        except psycopg.Error as error:
            raise refused(error, self.where) from error


def in_postgres(sql: str) -> str:
    """psycopg's sign for a value."""
    return sql.replace("%", "%%").replace("?", "%s")


def refused(error: psycopg.Error, where: str) -> DatabaseError:
    return DatabaseError("PostgreSQL refuses", where=where, got=" ".join(str(error).split()))


def store_at(kind: Kind, postgres: str | None, file: Path) -> Store:
    if kind == "sqlite":
        return SqliteStore(file)
    assert postgres is not None
    return PostgresStore(postgres)
