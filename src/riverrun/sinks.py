"""Where results go, as data. What delivers to each kind is in `riverrun.delivery`.

A sink's `name` tells outputs apart, its `text` is for people.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.formats import JSON, Format, format_of
from riverrun.schema import Schema

OWN_TABLES = ("riverrun_progress", "riverrun_runs")
LONGEST_NAME = 63
"""Bytes of a name that PostgreSQL keeps."""

Guarantee = Literal["exactly once", "at least once"]


@dataclass(frozen=True)
class Topic:
    """A Kafka topic."""

    name: str
    partitions: int | None = None
    headers: str | None = None
    """The column that holds the headers of records."""
    format: Format = field(default=JSON, repr=False)

    @property
    def text(self) -> str:
        count = f" ({self.partitions} partitions)" if self.partitions else ""
        return f"topic {self.name}{count}"


@dataclass(frozen=True)
class Screen:
    """The terminal."""

    name: str = "screen"
    text = "screen"


@dataclass(frozen=True)
class Postgres:
    """A table of the PostgreSQL database that the settings name."""

    table: str
    """`table` or `schema.table`."""

    @property
    def name(self) -> str:
        return f"postgres:{self.table}"

    @property
    def text(self) -> str:
        return f"PostgreSQL table {self.table}"


@dataclass(frozen=True)
class Sqlite:
    """A table of an SQLite database."""

    file: Path
    table: str

    @property
    def name(self) -> str:
        return f"sqlite:{self.file.name}:{self.table}"

    @property
    def text(self) -> str:
        return f"SQLite table {self.table} of {self.file}"


@dataclass(frozen=True)
class Parquet:
    """A folder of Parquet files."""

    name: str
    folder: str
    partition_by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        by = f", a folder for each {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"Parquet files in {self.folder}{by}"


@dataclass(frozen=True)
class Delta:
    """A Delta table in a folder."""

    name: str
    folder: str

    @property
    def text(self) -> str:
        return f"Delta table in {self.folder}"


@dataclass(frozen=True)
class Webhook:
    """An address that is sent a POST request for each row."""

    name: str
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    tries: int
    timeout: int
    """Of one try, in microseconds."""

    @property
    def text(self) -> str:
        """Of the address only what the name shows: the rest may be secret."""
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"POST to {self.name.removeprefix('webhook:')}, {tries}"


Sink = Topic | Screen | Postgres | Sqlite | Parquet | Delta | Webhook

CHANGE = ("change", "revision")
"""What files hold of a change beside its row: "+" or "-", and which version of its key it is."""

FOLDER_TYPES = r"VARCHAR|BOOLEAN|DATE|U?(TINY|SMALL|BIG)?INT(EGER)?"
"""Types of columns that can be the names of folders."""


def topic(
    name: str,
    *,
    partitions: int | None = None,
    headers: str | None = None,
    format: str | Format = "json",
) -> Topic:
    """A Kafka topic to write to, created with this many partitions when it is missing.

    `headers` is a column of texts by name that becomes the headers of a stream's records; with
    "_headers", they are those of the record that a row came from. `format` is "json", or an
    instance of your own subclass of riverrun.formats.Format.
    """
    return Topic(name, partitions, headers, format_of(format, caller()))


def screen(name: str | None = None) -> Screen:
    """The terminal of `riverrun run`. A name tells two screens of one stream apart."""
    return Screen(f"screen:{name}" if name else "screen")


def parquet(folder: str | os.PathLike[str], *, partition_by: str | Sequence[str] = ()) -> Parquet:
    """A folder of Parquet files, with a folder for each value of the columns `partition_by`."""
    at = caller()
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    return Parquet(f"parquet:{_shown(folder, at)}", os.path.abspath(folder), columns)


def delta(folder: str | os.PathLike[str]) -> Delta:
    """A Delta table in a folder: rows of a stream are appended, a table is kept as a table."""
    at = caller()
    return Delta(f"delta:{_shown(folder, at)}", os.path.abspath(folder))


def _shown(folder: str | os.PathLike[str], at: Location) -> str:
    text = os.fspath(folder)
    if "://" in text or not text:
        raise ProgramError(
            "a folder is a path", where=at, got=text, hint="mount the store, and give its folder"
        )
    return os.path.normpath(text)


def webhook(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tries: int = 5,
    timeout: Duration = "10 seconds",
    name: str | None = None,
) -> Webhook:
    """An address that is sent a POST request for each row, at least once and in order.

    A row that is not taken after so many tries is a dead letter. `timeout` is for one try. The
    name is the address without its query, unless one is given.
    """
    at = caller()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProgramError("a webhook is an address", where=at, got=url, hint="https://host/path")
    if parts.username or parts.password:
        raise ProgramError(
            "the address of a webhook holds a password", where=at, hint="use headers={…}"
        )
    if tries < 1:
        raise ProgramError("a webhook is tried at least once", where=at, got=f"tries={tries}")
    port = f":{parts.port}" if parts.port else ""
    shown = name or f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    given = tuple(sorted((headers or {}).items()))
    return Webhook(f"webhook:{shown}", url, given, tries, microseconds(timeout, at))


def check_columns(sink: Sink, columns: Schema, *, table: bool, where: object) -> None:
    """Refuses columns that the sink cannot hold."""
    if not isinstance(sink, Parquet):
        return
    taken = [name for name in CHANGE if name in columns] if table else []
    if taken:
        raise ProgramError(
            f"the column {taken[0]!r} is one that files of changes have themselves",
            where=where,
            hint="give it another name",
        )
    for name in sink.partition_by:
        columns.require(name, where)
        if not re.fullmatch(FOLDER_TYPES, columns.type_of(name)):
            raise ProgramError(
                f"folders cannot be named by {name!r}, which is {columns.type_of(name)}",
                where=where,
                hint="use text, a whole number, a boolean or a date, e.g. CAST(… AS DATE)",
            )
    if set(sink.partition_by) >= set(columns.names):
        raise ProgramError("no column is left for the files", where=where, got=sink.partition_by)


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
