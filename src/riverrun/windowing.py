"""Windows of event time: where they begin and end, and which are complete at a moment.

Windows in a time zone are counted in the zone's wall time, so that a day is a local day; `passed`
and `utc` translate. A pane is the piece of time that windows are built from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import gcd
from typing import Literal
from zoneinfo import ZoneInfo

from riverrun.durations import UNITS

MONDAY = 4 * UNITS["day"]
"""1970 began on a Thursday: weeks are counted from the Monday after."""

EPOCH = datetime(1970, 1, 1)
FAR = 250_000_000_000_000_000
"""Microseconds: beyond the years that a calendar can tell."""


@dataclass(frozen=True)
class Window:
    """Which rows of a key belong together. Lengths are in microseconds."""

    kind: Literal["all", "tumbling", "hopping", "sliding", "session"]
    size: int = 0
    """Of a session: the gap that ends it."""
    hop: int = 0
    offset: int = 0
    zone: str | None = None

    @property
    def pane(self) -> int:
        return gcd(self.size, self.hop) if self.kind == "hopping" else self.size

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

    def floor(self, time: int, step: int) -> int:
        """The last multiple of `step`, counted from the alignment, up to `time`."""
        return time - (time - self.offset) % step

    def last_complete(self, instant: int) -> int:
        """The start of the last window whose end has passed at the instant; windows before it
        have ended as well."""
        return self.floor(self.passed(instant) - self.size, self.hop)

    def last_complete_pane(self, instant: int) -> int:
        """The last pane that may be part of a window that has ended at the instant."""
        if self.kind in ("session", "sliding"):
            return instant - 1
        return self.last_complete(instant) + self.size - self.pane

    def start_sql(self, at: str) -> str:
        """SQL for the pane that a time falls into."""
        if self.kind == "all":
            return "0::BIGINT"
        if self.kind in ("sliding", "session"):
            return f"epoch_us({at})"
        local = f"{at} AT TIME ZONE 'UTC' AT TIME ZONE '{self.zone}'" if self.zone else at
        time = f"epoch_us({local})"
        return f"{time} - (({time} - {self.offset}) % {self.pane} + {self.pane}) % {self.pane}"


def _local(instant: int, zone: str) -> int:
    moment = EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=instant)
    local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return (local - EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=1 << 16)
def _utc(time: int, zone: str) -> int:
    local = (EPOCH + timedelta(microseconds=time)).replace(tzinfo=ZoneInfo(zone))
    return (local.astimezone(UTC).replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
