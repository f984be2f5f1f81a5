"""One answer of the parts of all pages."""

from __future__ import annotations

import base64
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

import duckdb
import pyarrow as pa

from riverrun.durations import time_text
from riverrun.errors import InputError, JobError, RiverrunError
from riverrun.kernels.questions import TABLE, Part, Point, asking, interrupted_after
from riverrun.questions.select import NAMES
from riverrun.questions.split import Split
from riverrun.schema import first_line

MOST = 16 << 20
"""Bytes of all parts together."""
NARROW = "ask for fewer rows or columns, with WHERE, LIMIT or aggregates such as count(*) and max"


@dataclass(frozen=True)
class Answer:
    """Rows, and the point of the stream that they are of."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    """In DuckDB's names."""
    rows: list[dict[str, Any]]
    table: pa.Table = field(repr=False, compare=False)
    """The same in Arrow's columns."""
    point: Point

    @property
    def at(self) -> datetime:
        """The wall clock of the batch that the answer is of."""
        return datetime.fromtimestamp(self.point.tick / 1e6, UTC)

    @property
    def clock(self) -> str:
        """The step's clock after that batch."""
        return time_text(self.point.clock)

    def as_json(self) -> dict[str, Any]:
        """Rows and point, in values that JSON has: times as topics have them."""
        return {
            "columns": dict(zip(self.columns, self.types, strict=True)),
            "rows": [{name: _plain(value) for name, value in row.items()} for row in self.rows],
            "batch": self.point.batch,
            "at": _plain(self.at),
            "clock": self.clock,
            "offsets": dict(self.point.ends),
        }


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str() | Decimal():
            return value
        case float():
            return value if isfinite(value) else NOT_FINITE[str(value)]
        case datetime():
            return _instant(value)
        case date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(_plain(name)): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:  # any other: UUID, timedelta, as they are written
            return str(value)


NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _instant(moment: datetime) -> str:
    """UTC, and a fraction only where there is one."""
    plain = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return f"{plain.isoformat(timespec='microseconds' if plain.microsecond else 'seconds')}Z"


@dataclass
class Parts:
    """What pages have answered so far. A batch that is run again answers again: what is there
    already is dropped."""

    question: str
    heard: dict[tuple[int, int], dict[int, Part]] = field(default_factory=lambda: defaultdict(dict))
    """By the batch and its tick, and by page."""

    def add(self, part: Part) -> None:
        if part.question == self.question:
            known = self.heard[part.point.batch, part.point.tick]
            # what was too slow or too busy may have gone better the next time
            if part.page not in known or known[part.page].trouble is not None:
                known[part.page] = part

    def whole(self) -> list[Part] | None:
        """The parts of all pages, of one batch; None as long as some are missing."""
        for known in self.heard.values():
            if known and len(known) == next(iter(known.values())).pages:
                return [known[page] for page in sorted(known)]
        return None

    @property
    def pages(self) -> str:
        """How many have answered, for people."""
        best = max(self.heard.values(), key=len, default={})
        of = f" of {next(iter(best.values())).pages}" if best else ""
        return f"{len(best)}{of} pages have answered"


def answer(split: Split, parts: list[Part], *, seconds: float) -> Answer:
    """The answer to the question; an error that says what to do if a page has none."""
    for part in parts:
        if part.trouble is not None:
            raise _trouble(part, split.step)
    if (size := sum(len(part.data) for part in parts)) > MOST:
        raise InputError("the answer is too large", got=f"{size:,} bytes", hint=NARROW)
    return answered(
        split, pa.concat_tables([part.rows for part in parts]), parts[0].point, seconds=seconds
    )


def answered(split: Split, sent: pa.Table, point: Point, *, seconds: float) -> Answer:
    with asking(sent, split.sent, *NAMES, split.step) as connection:
        try:
            with interrupted_after(connection, seconds):
                found = connection.sql(split.final).to_arrow_table()
        except duckdb.InterruptException as error:
            raise JobError("the answer takes too long to make", hint=NARROW) from error
        except duckdb.Error as error:
            raise InputError("the question fails", got=first_line(error)) from error
    names = split.answer.names
    table = found.rename_columns(list(names))
    with asking(table, split.answer) as connection:
        rows = connection.sql(f"FROM {TABLE}").fetchall()
    made = [dict(zip(names, each, strict=True)) for each in rows]
    return Answer(names, tuple(c.type for c in split.answer.columns), made, table, point)


def _trouble(part: Part, step: str) -> RiverrunError:
    where = f"step {step!r}, page {part.page}"
    match part.trouble:
        case "too large":
            size = f"{int(part.detail):,} bytes of one page"
            return InputError("the answer is too large", where=where, got=size, hint=NARROW)
        case "too slow":
            took = f"more than {part.detail} seconds"
            return JobError("a page took too long to answer", where=where, got=took, hint=NARROW)
        case "too busy":
            return JobError(
                "too much was asked at once",
                where=where,
                got="the questions of a batch have used up their time",
                hint="ask again",
            )
        case "failed":
            return InputError("the question fails", where=where, got=part.detail)
        case _:
            raise TypeError(part.trouble)
