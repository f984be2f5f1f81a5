"""Idempotency keys that have taken effect: a file of the home, to look them up. It is made of the
topic of posts, and made of it again if it is lost."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun import private

FILE = "posts.sqlite"
TABLES = """
CREATE TABLE IF NOT EXISTS posts (
    who TEXT, topic TEXT, key TEXT, hash TEXT, at INTEGER, answer TEXT,
    PRIMARY KEY (who, topic, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS posts_at ON posts (at);
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
CLEANING, AT_ONCE = 1.0, 5000
"""Seconds between two looks for keys that are too old, and how many go at a time."""
OLD = """
DELETE FROM posts WHERE (who, topic, key) IN (
    SELECT who, topic, key FROM posts WHERE at <= ? ORDER BY at LIMIT ?
)
"""


@dataclass(frozen=True)
class Name:
    """A key is known to the one who used it, for one topic."""

    who: str
    topic: str
    key: str


@dataclass(frozen=True)
class Entry:
    """A post that has taken effect."""

    who: str
    topic: str
    key: str
    hash: str
    at: int
    """Milliseconds."""
    answer: dict[str, Any]


class Keys:
    """Written by one thread, read by another."""

    def __init__(self, file: Path, keep: int) -> None:
        """`keep`: microseconds."""
        self.file, self.keep = file, keep // 1000
        private.folder(file.parent)
        try:
            self.writing, self.reading = self._open(), self._open()
        except sqlite3.DatabaseError:  # damaged: the topic has all of it
            for each in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
                each.unlink(missing_ok=True)
            self.writing, self.reading = self._open(), self._open()
        self._cleaned_at = 0.0

    def _open(self) -> sqlite3.Connection:
        private.opened(self.file, "a").close()
        found = sqlite3.connect(self.file, check_same_thread=False, isolation_level=None)
        # what a loss of power takes is read from the topic again, as how far it was read goes too
        found.execute("PRAGMA journal_mode=WAL")
        found.execute("PRAGMA synchronous=NORMAL")
        found.execute("PRAGMA busy_timeout=10000")
        found.executescript(TABLES)
        return found

    def find(self, name: Name, *, writing: bool = False) -> Entry | None:
        connection = self.writing if writing else self.reading
        found = connection.execute(
            "SELECT who, topic, key, hash, at, answer FROM posts "
            "WHERE who = ? AND topic = ? AND key = ? AND at > ?",
            (name.who, name.topic, name.key, _now() - self.keep),
        ).fetchone()
        if found is None:
            return None
        who, topic, key, digest, at, answer = found
        return Entry(who, topic, key, digest, at, json.loads(answer))

    def read_to(self, log: str) -> int | None:
        """Up to which offset the topic was read; None if it never was: it may be another one."""
        found = dict(self.writing.execute("SELECT name, value FROM about"))
        if found.get("log") != log:
            return None
        return int(found["read_to"])

    def add(self, entries: Iterable[Entry], log: str, read_to: int) -> None:
        """Also how far the topic was read: both, or nothing."""
        rows = [
            (each.who, each.topic, each.key, each.hash, each.at, json.dumps(each.answer))
            for each in entries
        ]
        self.writing.execute("BEGIN IMMEDIATE")
        try:
            self.writing.executemany("INSERT OR REPLACE INTO posts VALUES (?, ?, ?, ?, ?, ?)", rows)
            self.writing.executemany(
                "INSERT OR REPLACE INTO about VALUES (?, ?)",
                [("log", log), ("read_to", str(read_to))],
            )
            self.writing.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.writing.execute("ROLLBACK")
            raise
        self._clean()

    def _clean(self) -> None:
        if time.monotonic() > self._cleaned_at + CLEANING:
            self._cleaned_at = time.monotonic()
            self.writing.execute(OLD, (_now() - self.keep, AT_ONCE))

    def close(self) -> None:
        self.writing.close()
        self.reading.close()


def _now() -> int:
    return time.time_ns() // 1_000_000
