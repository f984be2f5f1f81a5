"""Keys in an SQLite file of the application's home."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from riverrun import private
from riverrun.errors import DatabaseError
from riverrun.forgetting.cipher import KEY
from riverrun.forgetting.store import Found, KeyStore

AT_ONCE = 500
"""Subjects of one query."""
PATIENCE = 30.0

TABLES = """
    CREATE TABLE IF NOT EXISTS store (one INTEGER PRIMARY KEY, secret BLOB, destroyed INTEGER);
    CREATE TABLE IF NOT EXISTS keys (
        subject BLOB PRIMARY KEY, key BLOB, destroyed_at TEXT
    ) WITHOUT ROWID;
"""


class SqliteStore(KeyStore):
    """A connection per process: SQLite's must not be used by the child of a fork."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.held: tuple[int, sqlite3.Connection] | None = None
        self.inherited: list[sqlite3.Connection] = []
        """Those of parents: a child that closed one could take away what its parent works on."""

    @property
    def _connection(self) -> sqlite3.Connection:
        if self.held is None or self.held[0] != os.getpid():
            self.inherited += [self.held[1]] if self.held else []
            self.held = os.getpid(), self._opened()
        return self.held[1]

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._made()
        except (OSError, sqlite3.Error) as error:
            raise DatabaseError(
                "the store of keys cannot be opened",
                where=self.file,
                got=error,
                hint="take it from where it was backed up: without it nothing can be read",
            ) from error

    def _made(self) -> sqlite3.Connection:
        private.folder(self.file.parent)
        with private.by_default():
            found = sqlite3.connect(
                self.file, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            found.execute("PRAGMA journal_mode=WAL")
            # what is overwritten or deleted is gone from the file, too
            found.execute("PRAGMA secure_delete=ON")
            found.execute("PRAGMA synchronous=FULL")
            found.executescript(TABLES)
            made = (0, secrets.token_bytes(KEY), 0)
            found.execute("INSERT OR IGNORE INTO store VALUES (?, ?, ?)", made)
        return found

    def close(self) -> None:
        if self.held is not None and self.held[0] == os.getpid():
            self.held[1].close()
        elif self.held is not None:
            self.inherited.append(self.held[1])
        self.held = None

    def secret(self) -> bytes:
        [[found]] = self._connection.execute("SELECT secret FROM store").fetchall()
        return bytes(found)

    def find(self, subjects: Collection[bytes]) -> Found:
        found: dict[bytes, bytes | None] = {}
        for part in _parts(subjects):
            marks = ", ".join("?" * len(part))
            query = f"SELECT subject, key FROM keys WHERE subject IN ({marks})"
            found |= dict(self._connection.execute(query, part).fetchall())
        return found

    def make(self, subjects: Collection[bytes]) -> Found:
        missing = [(each, secrets.token_bytes(KEY)) for each in subjects]
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO keys (subject, key) VALUES (?, ?) ON CONFLICT DO NOTHING", missing
            )
        return self.find(subjects)

    def destroy(self, subject: bytes) -> None:
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO keys VALUES (?, NULL, ?) ON CONFLICT (subject) DO UPDATE SET "
                "key = NULL, destroyed_at = coalesce(destroyed_at, excluded.destroyed_at)",
                (subject, datetime.now(UTC).isoformat(timespec="seconds")),
            )
            connection.execute(
                "UPDATE store SET destroyed = (SELECT count(*) FROM keys WHERE key IS NULL)"
            )
        self._empty_log()

    def destroyed(self) -> int:
        [[found]] = self._connection.execute("SELECT destroyed FROM store").fetchall()
        return int(found)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _empty_log(self) -> None:
        """The write-ahead log holds pages as they were: it is emptied, as soon as nobody reads."""
        give_up_at = time.monotonic() + PATIENCE
        while True:
            query = "PRAGMA wal_checkpoint(TRUNCATE)"
            [[busy, _, _]] = self._connection.execute(query).fetchall()
            if not busy:
                return
            if time.monotonic() > give_up_at:
                raise DatabaseError(
                    "the log of the store of keys cannot be emptied: somebody reads it",
                    where=self.file,
                    hint="the key is destroyed in the store, not yet in its log: run it again",
                )
            time.sleep(0.05)


def _parts(subjects: Collection[bytes]) -> Iterator[list[bytes]]:
    given = list(subjects)
    yield from (given[start : start + AT_ONCE] for start in range(0, len(given), AT_ONCE))
