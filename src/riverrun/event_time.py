"""Durations, and the clock that says how far event time has come. Times are microseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from riverrun.errors import ProgramError

BEGINNING = -(2**62)
"""Before every event: the clock of a program that has seen nothing."""

END = 2**62
"""After every event: the clock when the input has ended."""

UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}

Duration = str | timedelta


def microseconds(duration: Duration, where: object = None) -> int:
    """`"5 minutes"`, `"1 hour 30 minutes"` or a timedelta, in microseconds."""
    if isinstance(duration, timedelta) and duration >= timedelta(0):
        return round(duration / timedelta(microseconds=1))
    text = duration.lower() if isinstance(duration, str) else ""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text)
    rest = re.sub(r"\d+(?:\.\d+)?\s*[a-z]+", "", text).strip(" ,")
    known = [(number, _unit(word)) for number, word in parts]
    if not parts or rest or any(unit is None for _, unit in known):
        raise ProgramError(
            "a duration cannot be read",
            where=where,
            got=repr(duration),
            hint='write it as "30 seconds", "5 minutes", "1 hour", "7 days", or a timedelta',
        )
    return round(sum(float(number) * unit for number, unit in known if unit is not None))


def _unit(word: str) -> int | None:
    return UNITS.get(word, UNITS.get(word.removesuffix("s")))


def milliseconds_of(text: str, where: object = None) -> int:
    """A moment in ISO 8601 text as milliseconds since 1970; UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ProgramError(
            "a starting position cannot be read",
            where=where,
            got=repr(text),
            hint='"earliest", "latest", or a time like "2026-01-31T12:00:00Z"',
        ) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def duration_text(duration: int) -> str:
    """The shortest text in whole units: 60000000 is "1 minute"."""
    for word in ("week", "day", "hour", "minute", "second", "millisecond", "microsecond"):
        if duration and duration % UNITS[word] == 0:
            count = duration // UNITS[word]
            return f"{count} {word}{'' if count == 1 else 's'}"
    return "0 seconds"


@dataclass(frozen=True)
class Pace:
    """How a source's time is judged: the lateness to wait for, and when silence counts as idle."""

    lateness: int
    idle: int


@dataclass
class Punctuation:
    """What one batch tells of time: the wall-clock tick, and how far each partition has come."""

    tick: int = 0
    ended: bool = False
    highs: dict[str, int] = field(default_factory=dict)
    """Partition name to the highest event time read in this batch."""
    behind: list[str] = field(default_factory=list)
    """Partitions that hold records beyond this batch."""
    clocks: dict[str, int] | None = None
    """Where the clocks stood before the batch, if it is known."""

    def add(self, other: Punctuation) -> None:
        self.tick = max(self.tick, other.tick)
        self.ended = self.ended or other.ended
        self.behind = sorted({*self.behind, *other.behind})
        self.clocks = other.clocks if self.clocks is None else self.clocks
        for name, high in other.highs.items():
            self.highs[name] = max(high, self.highs.get(name, high))


@dataclass
class PartitionTimes:
    """The memory behind a clock: per partition the highest event time, and the tick it came at."""

    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, punctuation: Punctuation) -> None:
        for name, high in punctuation.highs.items():
            known = self.seen.get(name, (high, 0))[0]
            self.seen[name] = (max(known, high), punctuation.tick)


def clock(
    times: PartitionTimes, punctuation: Punctuation, paces: Mapping[str, Pace], before: int
) -> int:
    """The time that has passed for all partitions of the topics in `paces`; never goes back.

    The slowest partition that is not idle decides. When all are idle, time goes on with the tick.
    """
    if punctuation.ended:
        return END
    ours = [(name, *seen, paces[topic_of(name)]) for name, seen in _ours(times, paces)]
    busy = [
        high - pace.lateness
        for name, high, at, pace in ours
        if name in punctuation.behind or punctuation.tick - at < pace.idle
    ]
    if busy:
        return max(before, min(busy))
    running_on = [high + punctuation.tick - at - pace.lateness for _, high, at, pace in ours]
    return max([before, *running_on])


def _ours(
    times: PartitionTimes, paces: Mapping[str, Pace]
) -> Iterable[tuple[str, tuple[int, int]]]:
    return ((name, seen) for name, seen in times.seen.items() if topic_of(name) in paces)


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def topic_of(name: str) -> str:
    return name.rpartition("/")[0]


def partition_of(name: str) -> int:
    return int(name.rpartition("/")[2])
