"""Where results go, as data. What delivers to each kind is in `riverrun.delivery`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from riverrun.errors import ProgramError, caller

OWN_TABLES = ("riverrun_progress", "riverrun_runs")
LONGEST_NAME = 63
"""Bytes of a name that PostgreSQL keeps."""

Guarantee = Literal["exactly once", "at least once"]


@dataclass(frozen=True)
class Topic:
    """A Kafka topic."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True)
class Screen:
    """The terminal."""

    name: str = "screen"


@dataclass(frozen=True)
class Postgres:
    """A table of the PostgreSQL database that the settings name."""

    table: str
    """`table` or `schema.table`."""

    @property
    def name(self) -> str:
        return f"postgres:{self.table}"


@dataclass(frozen=True)
class Sqlite:
    """A table of an SQLite database."""

    file: Path
    table: str

    @property
    def name(self) -> str:
        return f"sqlite:{self.file.name}:{self.table}"


Sink = Topic | Screen | Postgres | Sqlite


def topic(name: str, *, partitions: int | None = None) -> Topic:
    """A Kafka topic to write to, created with this many partitions when it is missing."""
    return Topic(name, partitions)


def screen(name: str | None = None) -> Screen:
    """The terminal of `riverrun run`. A name tells two screens of one stream apart."""
    return Screen(f"screen:{name}" if name else "screen")


def postgres(table: str) -> Postgres:
    """A table in PostgreSQL, `"table"` or `"schema.table"`, made from the columns if missing.

    A stream's rows are added; a table's rows are put in, changed and deleted by key.
    """
    for part in table.split(".", 1):
        _check_table(part, table)
    return Postgres(table)


def sqlite(file: str | Path, table: str) -> Sqlite:
    """A table in an SQLite file, as `postgres`. The file is made if it is missing."""
    _check_table(table, table)
    return Sqlite(Path(file).expanduser().absolute(), table)


def _check_table(name: str, given: str) -> None:
    if not re.fullmatch(r"[\w-]+", name) or len(name.encode()) > LONGEST_NAME:
        raise ProgramError(
            "a table's name has letters, digits, _ and -, and at most 63 bytes",
            where=caller(),
            got=repr(given),
        )
    if name.lower() in OWN_TABLES:
        raise ProgramError(f"the table {name!r} is riverrun's own", where=caller())
