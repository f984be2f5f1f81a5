"""What windows on a grid of time share: tumbling and hopping ones.

Windows in a time zone are counted in the zone's wall time, so that a day is a local day; `passed`
and `utc` translate. A pane is the piece of time that windows are built from: the slot of state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from riverrun.durations import UNITS, Duration, duration_text, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels.operator import Entry
from riverrun.operators.aggregate import Aggregate, Window
from riverrun.operators.windows import entry
from riverrun.schema import Column, Schema

MONDAY = 4 * UNITS["day"]
"""1970 began on a Thursday: weeks are counted from the Monday after."""

EPOCH = datetime(1970, 1, 1)
FAR = 254_000_000_000_000_000
"""Microseconds: beyond the years that a calendar can tell."""
EARLY, LATE = -62_135_000_000_000_000, 253_402_000_000_000_000
"""Within them, Python's calendar tells the time of every zone."""
CYCLE = 146_097 * UNITS["day"]
"""400 years, after which the calendar repeats."""

BOUNDS = (Column("window_start", "TIMESTAMP"), Column("window_end", "TIMESTAMP"))


@dataclass(frozen=True)
class TimedWindow(Window):
    """A window with a beginning and an end."""

    def columns(self, rows: Schema, keys: tuple[str, ...]) -> tuple[Column, ...]:
        return (*(Column(name, rows.type_of(name)) for name in keys), *BOUNDS)

    def key(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (*keys, "window_start")

    def bounds(self, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
        times = zip(BOUNDS, (start, end), strict=True)
        return [self.instants(at).cast(pl.Datetime("us")).alias(c.name) for c, at in times]

    def seconds(self, start: pl.Expr, end: pl.Expr) -> pl.Expr | None:
        return (self.instants(end) - self.instants(start)) / 1_000_000

    def instants(self, time: pl.Expr) -> pl.Expr:
        """Times of windows as instants: the same, unless the windows are those of a time zone."""
        return time


@dataclass(frozen=True)
class RowWindow(TimedWindow):
    """A window that follows from the rows themselves, and not from a grid of time."""

    size: int

    @property
    def text(self) -> str:
        return f"{self.kind} {duration_text(self.size)}"

    @property
    def suffix(self) -> str:
        return f"_{self.text}".replace(" ", "_")

    def last_closed(self, instant: int) -> int:
        return instant - 1

    def done(self, instant: int) -> int:
        return instant - self.size

    def compared(self) -> int | None:
        return None


@dataclass(frozen=True)
class Grid(TimedWindow):
    size: int
    hop: int
    offset: int = 0
    zone: str | None = None

    @property
    def pane(self) -> int:
        return self.size

    def end(self, slot: pl.Expr) -> pl.Expr:
        return slot + self.size

    @property
    def text(self) -> str:
        every = f" every {duration_text(self.hop)}" if self.hop < self.size else ""
        moved = "" if self.offset in (0, MONDAY) else f" from {duration_text(self.offset)}"
        return f"{duration_text(self.size)}{every}{moved}{f' in {self.zone}' if self.zone else ''}"

    def passed(self, instant: int) -> int:
        """How far the windows' time has come at an instant."""
        if self.zone is None or abs(instant) > FAR:
            return instant
        midnight = self.floor(_local(instant, self.zone) + UNITS["day"], self.pane)
        while self.utc(midnight) > instant:
            midnight -= self.pane
        return midnight

    def utc(self, time: int) -> int:
        """The instant of a time of the windows."""
        return time if self.zone is None or abs(time) > FAR else _utc(time, self.zone)

    def instants(self, time: pl.Expr) -> pl.Expr:
        if self.zone is None:
            return time
        return time.map_batches(
            lambda times: times.replace_strict(
                {each: self.utc(each) for each in times.unique().to_list()}, return_dtype=pl.Int64
            ),
            return_dtype=pl.Int64,
        )

    def floor(self, time: int, step: int) -> int:
        """The last multiple of `step`, counted from the alignment, up to `time`."""
        return time - (time - self.offset) % step

    def last_complete(self, instant: int) -> int:
        """The start of the last window whose end has passed; those before it have ended, too."""
        return self.floor(self.passed(instant) - self.size, self.hop)

    def last_closed(self, instant: int) -> int:
        """The last pane that may be part of a window that has ended."""
        return self.last_complete(instant) + self.size - self.pane

    def done(self, instant: int) -> int:
        return self.last_complete(instant)

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        slot = self._pane_sql("__at")
        return Entry(entry.single_if_late(step, rows, slot), entry.combined(step, rows, slot))

    def _pane_sql(self, at: str) -> str:
        local = f"{at} AT TIME ZONE 'UTC' AT TIME ZONE '{self.zone}'" if self.zone else at
        time = f"epoch_us({local})"
        # SQL's remainder has the sign of the dividend: times before 1970 would be rounded up
        return f"{time} - (({time} - {self.offset}) % {self.pane} + {self.pane}) % {self.pane}"


def _local(instant: int, zone: str) -> int:
    moved = _into_calendar(instant)
    moment = EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=instant + moved)
    local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return (local - EPOCH) // timedelta(microseconds=1) - moved


@lru_cache(maxsize=1 << 16)
def _utc(time: int, zone: str) -> int:
    moved = _into_calendar(time)
    local = (EPOCH + timedelta(microseconds=time + moved)).replace(tzinfo=ZoneInfo(zone))
    instant = local.astimezone(UTC).replace(tzinfo=None) - EPOCH
    return instant // timedelta(microseconds=1) - moved


def _into_calendar(time: int) -> int:
    """By how much a time is to be moved so that Python's calendar has it."""
    if time < EARLY:
        return -((time - EARLY) // CYCLE) * CYCLE
    return -CYCLE if time > LATE else 0


def length(what: str, duration: Duration, at: Location) -> int:
    found = microseconds(duration, at)
    if found <= 0:
        raise ProgramError(f"{what} needs a size above zero", where=at, got=duration)
    return found


def alignment(hop: int, offset: Duration, timezone: str | None, at: Location) -> int:
    """Where windows that begin every `hop` begin."""
    moved = microseconds(offset, at)
    if timezone is not None:
        whole_days(hop, at)
        _known_zone(timezone, at)
        if moved % UNITS["day"]:
            raise ProgramError(
                "with a time zone the offset is in whole days", where=at, got=repr(offset)
            )
    weeks = hop % UNITS["week"] == 0
    return (moved + (MONDAY if weeks else 0)) % hop


def whole_days(length: int, at: Location) -> None:
    if length % UNITS["day"]:
        raise ProgramError(
            "with a time zone windows are whole days",
            where=at,
            got=duration_text(length),
            hint='shorter ones can be moved with offset="30 minutes"',
        )


def _known_zone(name: str, at: Location) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ProgramError(
            "there is no such time zone", where=at, got=repr(name), hint='e.g. "Europe/Berlin"'
        ) from error
