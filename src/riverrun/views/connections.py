"""Connections for readers: they change nothing, and a question that takes too long is ended."""

from __future__ import annotations

import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import set_json_loads

from riverrun import exact
from riverrun.errors import DatabaseError, InputError
from riverrun.sinks.postgresql.connecting import LOST, connect
from riverrun.sinks.viewing.store import SCHEMA, in_postgres, refused
from riverrun.views.dialect import NUMBER
from riverrun.views.values import plain

BUSY = 5.0
LARGEST = 64_000_000
"""Bytes of a value, and of the answer to a query."""
PIECE = 500
"""Rows of a query that are fetched at a time."""
STEPS = 10_000
"""SQLite's instructions between two looks at the clock."""
READS = (
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
)  # fmt: skip

CURSOR = "DECLARE asked NO SCROLL CURSOR FOR "
HIDDEN = ("riverrun_", "sqlite_")
UNSAFE = (
    "load_extension", "readfile", "writefile", "edit", "fts3_tokenizer",
    "printf", "format",  # a wide field takes long, and nothing interrupts it
)  # fmt: skip


class Table(NamedTuple):
    """What a query gave."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    more: bool
    """Whether there are rows beyond the limit."""


class Connection(ABC):
    @abstractmethod
    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def query(self, sql: str, *, seconds: float, limit: int) -> Table:
        """Somebody else's SQL: it reads views, and nothing else."""

    @abstractmethod
    def close(self) -> None: ...


class SqliteConnection(Connection):
    def __init__(self, file: Path) -> None:
        if not file.exists():
            raise no_views(str(file))
        self.file = file
        # of one thread; but it may be another one that closes it
        self.own = sqlite3.connect(
            file, timeout=BUSY, isolation_level=None, check_same_thread=False
        )
        self.own.execute("PRAGMA query_only=ON")
        self.own.create_collation(NUMBER, _number_order)
        self.own.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self.own.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise DatabaseError("SQLite refuses", where=self.file, got=error) from error

    def query(self, sql: str, *, seconds: float, limit: int) -> Table:
        give_up_at = time.monotonic() + seconds
        self.own.set_progress_handler(lambda: time.monotonic() > give_up_at, STEPS)
        self.own.set_authorizer(_allowed)
        try:
            found = self.own.execute(sql)
            if found.description is None:
                raise only_select()
            names = [each[0] for each in found.description]
            rows = _bounded(islice(found, limit + 1))
        except sqlite3.Error as error:
            raise _explained(error, seconds) from error
        finally:
            self.own.set_authorizer(None)
            self.own.set_progress_handler(None, 0)
        return Table(names, rows[:limit], len(rows) > limit)

    def close(self) -> None:
        self.own.close()


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in READS:
        return sqlite3.SQLITE_DENY
    own = action == sqlite3.SQLITE_READ and (first or "").lower().startswith(HIDDEN)
    unsafe = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in UNSAFE
    return sqlite3.SQLITE_DENY if own or unsafe else sqlite3.SQLITE_OK


def _number_order(left: str, right: str) -> int:
    a, b = Decimal(left), Decimal(right)
    return (a > b) - (a < b)


def _explained(error: sqlite3.Error, seconds: float) -> InputError:
    text = str(error)
    if "interrupted" in text:
        return too_long(seconds)
    if "authorized to use function" in text:
        return InputError("the function is not for queries", got=text.rpartition(": ")[2])
    if "not authorized" in text or "prohibited" in text or "readonly" in text:
        return only_select()
    return InputError("the query cannot be run", got=text)


class PostgresConnection(Connection):
    def __init__(self, url: str, where: str) -> None:
        self.url, self.where = url, where
        self._own: psycopg.Connection | None = None

    @property
    def own(self) -> psycopg.Connection:
        if self._own is None or self._own.closed:
            self._own = connect(self.url)
            self._own.autocommit = True
            self._own.execute(
                "SELECT set_config('TimeZone', 'UTC', false),"
                " set_config('default_transaction_read_only', 'on', false)"
            )
            set_json_loads(exact.loads, self._own)
        return self._own

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            try:
                return self.own.execute(in_postgres(sql), values).fetchall()
            except LOST:  # the server was restarted
                self.close()
                return self.own.execute(in_postgres(sql), values).fetchall()
        except psycopg.errors.UndefinedTable as error:
            raise no_views(self.where) from error
        except psycopg.Error as error:
            raise refused(error, self.where) from error

    def query(self, sql: str, *, seconds: float, limit: int) -> Table:
        own = self.own
        self._refuse_superuser()
        names: list[str] = []
        rows: list[tuple[Any, ...]] = []
        try:
            with own.transaction():
                own.execute(f"SET LOCAL search_path TO {SCHEMA}")
                own.execute(f"SET LOCAL statement_timeout TO {_milliseconds(seconds)}")
                own.execute("SELECT 1")  # from here on nothing makes it a transaction that writes
                # a cursor takes one statement that gives rows, and so does the binary protocol
                own.execute(f"{CURSOR}{sql}".encode(), binary=True)
                found = own.execute("FETCH FORWARD 0 FROM asked")
                names = [each.name for each in found.description or ()]
                rows = _bounded(_fetched(own, limit + 1))
        except psycopg.errors.QueryCanceled as error:
            raise too_long(seconds) from error
        except psycopg.Error as error:
            raise _not_run(error) from error
        return Table(names, rows[:limit], len(rows) > limit)

    def _refuse_superuser(self) -> None:
        """One may read any file of the server with a SELECT."""
        [(may, name)] = self.rows(
            "SELECT rolsuper, rolname FROM pg_roles WHERE rolname = current_user"
        )
        if may:
            raise InputError(
                "queries are not run with the rights of a superuser",
                where=self.where,
                got=name,
                hint="name a role that only reads, in `views_reader` of riverrun.toml",
            )

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None


def _milliseconds(seconds: float) -> int:
    """As PostgreSQL takes them: none at all would be no limit, and there are 31 bits."""
    return min(max(int(seconds * 1000), 1), 2**31 - 1)


def _fetched(own: psycopg.Connection, limit: int) -> Iterator[tuple[Any, ...]]:
    for begin in range(0, limit, PIECE):
        piece = own.execute(f"FETCH FORWARD {min(PIECE, limit - begin)} FROM asked").fetchall()
        yield from piece
        if len(piece) < PIECE:
            return


def _bounded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, unless they are too much for one answer."""
    found, size = [], 0
    for row in rows:
        size += sum(len(each) if isinstance(each, str | bytes) else 8 for each in row)
        if size > LARGEST:
            raise InputError(
                "the answer is too large", hint=f"ask for less: at most {LARGEST:,} bytes"
            )
        found.append(tuple(plain(each) for each in row))
    return found


def _not_run(error: psycopg.Error) -> InputError:
    """What PostgreSQL says, with the place as whoever asks has written it."""
    said = error.diag
    place = int(said.statement_position or 0) - len(CURSOR)
    at = f", at character {place}" if place > 0 else ""
    text = " ".join((said.message_primary or str(error)).split())
    return InputError("the query cannot be run", got=f"{text}{at}", hint=said.message_hint)


def only_select() -> InputError:
    return InputError("a query only reads views", hint="one SELECT over the views that there are")


def too_long(seconds: float) -> InputError:
    return InputError(
        f"the query took longer than {seconds:g} s", hint="ask for less, or allow it more time"
    )


def no_views(where: str) -> InputError:
    return InputError(
        "there are no views", where=where,
        hint="a program makes one with .to(rr.sinks.view(…)), once it runs",
    )  # fmt: skip


class PerThread:
    """A connection for each thread that asks."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make, self._local = make, threading.local()
        self._all: list[Connection] = []

    def get(self) -> Connection:
        if not hasattr(self._local, "own"):
            self._local.own = self._make()
            self._all.append(self._local.own)
        found: Connection = self._local.own
        return found

    def close(self) -> None:
        for each in self._all:
            each.close()
