"""Durations, and the clock that says how far event time has come. Times are microseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

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

_TOPIC = re.compile("[/:]")


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
    return UNITS.get(word, UNITS.get(word.removesuffix("s")))  # any other: no unit


def milliseconds_of(text: str, where: object = None, what: str = "a time") -> int:
    """A moment in ISO 8601 text as milliseconds since 1970; UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        choice = '"earliest", "latest", or ' if what == "a starting position" else ""
        raise ProgramError(
            f"{what} cannot be read",
            where=where,
            got=repr(text),
            hint=f'{choice}a time like "2026-01-31T12:00:00Z"',
        ) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def time_text(time: int) -> str:
    """A time as people read it: the clock of a step, or when a batch ran."""
    if time <= BEGINNING:
        return "nothing read yet"
    if time >= END:
        return "the end of the input"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def duration_text(duration: int) -> str:
    """The shortest text in whole units: 60000000 is "1 minute"."""
    for word in ("week", "day", "hour", "minute", "second", "millisecond", "microsecond"):
        if duration and duration % UNITS[word] == 0:
            count = duration // UNITS[word]
            return f"{count} {word}{'' if count == 1 else 's'}"
    return "0 seconds"


PROCESSING = "processing time"
"""Who holds a clock back that is the tick's."""

By = Literal["partition", "producer", "tick"]


@dataclass(frozen=True)
class Pace:
    """How a source's time is judged: the lateness to wait for, and when silence counts as idle."""

    lateness: int
    idle: int
    by: By = "partition"
    """Whose time it is: partitions, the producers that records name, or the tick's alone."""


@dataclass(frozen=True)
class Now:
    """When a batch runs, as it was logged."""

    tick: int = 0
    wall: bool = False
    """Whether the tick is a time of the day; in tests it counts from zero."""
    clocks: dict[str, int] | None = None
    """What may be late per step; None when it is not known."""


@dataclass
class Punctuation:
    """What one batch tells of time: the wall-clock tick, and how far each source has come."""

    tick: int = 0
    ended: bool = False
    highs: dict[str, int] = field(default_factory=dict)
    """Name of a partition or producer to the highest event time read in this batch."""
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

    def idle(self, name: str, at: int, pace: Pace) -> bool:
        """Whether a source whose last record came at the tick `at` is silent, and read to the end.

        Which partition a producer's next record will be in is not known: none may be behind.
        """
        if self.tick - at < pace.idle:
            return False
        if pace.by == "partition":
            return name not in self.behind
        return topic_of(name) not in map(topic_of, self.behind)


@dataclass
class PartitionTimes:
    """The memory behind a clock: per source the highest event time, and the tick it came at.

    Producers that are forgotten leave one entry under the bare name of their topic.
    """

    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, punctuation: Punctuation) -> None:
        for name, high in punctuation.highs.items():
            known = self.seen.get(name, (high, 0))[0]
            self.seen[name] = (max(known, high), punctuation.tick)

    def forget(self, punctuation: Punctuation, paces: Mapping[str, Pace]) -> None:
        """Idle producers leave, so that memory holds only those there are."""
        for name, (high, at) in list(self.seen.items()):
            topic = topic_of(name)
            pace = paces.get(topic)
            if pace is None or name == topic:
                continue
            if _kind(name, topic) != pace.by:  # the program was changed
                del self.seen[name]
            elif pace.by == "producer" and punctuation.idle(name, at, pace):
                del self.seen[name]
                known = self.seen.get(topic, (high - at, 0))[0]
                self.seen[topic] = (max(known, high - at), 0)


class Clock(NamedTuple):
    """How far event time has come, and why not further."""

    time: int
    held_by: str | None = None
    """The slowest source that is not idle; None when all are, and time goes on with the tick."""
    idle: tuple[str, ...] = ()


def clock(
    times: PartitionTimes, punctuation: Punctuation, paces: Mapping[str, Pace], before: int
) -> Clock:
    """The time that has passed for all sources of the topics in `paces`; never goes back.

    The slowest source that is not idle decides. When all are idle, time goes on with the tick.
    """
    if punctuation.ended:
        return Clock(END)
    ours = list(_ours(times, paces))
    if unseen := _unseen(times, punctuation, paces):
        return Clock(before, unseen[0])
    idle = {name for name, _, at, pace in ours if name in paces or punctuation.idle(name, at, pace)}
    shown = tuple(sorted(idle - set(paces)))
    busy = [(high - pace.lateness, name) for name, high, _, pace in ours if name not in idle]
    busy += [
        (punctuation.tick - pace.lateness, PROCESSING)
        for pace in paces.values()
        if pace.by == "tick"
    ]
    if busy:
        slowest, name = min(busy)
        return Clock(max(before, slowest), name, shown)
    running_on = [high + punctuation.tick - at - pace.lateness for _, high, at, pace in ours]
    return Clock(max([before, *running_on]), None, shown)


def release(
    times: PartitionTimes,
    punctuation: Punctuation,
    paces: tuple[Mapping[str, Pace], Mapping[str, Pace]],
    before: int,
) -> int:
    """How far a table is known that rows wait for; never goes back. Rows before it need not wait.

    `paces` are those of all sources, and of the table's. Its slowest source that is not idle
    decides. When all are idle, rows that have been read up to now wait no more.
    """
    if punctuation.ended:
        return END
    every, table = paces
    if _unseen(times, punctuation, table):
        return before
    if any(pace.by == "tick" for pace in table.values()):
        return max(before, punctuation.tick)
    busy = [
        high - pace.lateness
        for name, high, at, pace in _ours(times, table)
        if name not in table and not punctuation.idle(name, at, pace)
    ]
    known = busy or [high + 1 for _, high, _, _ in _ours(times, every)]
    return max([before, *([min(known)] if busy else known)])


def _unseen(
    times: PartitionTimes, punctuation: Punctuation, paces: Mapping[str, Pace]
) -> list[str]:
    """Partitions that hold records of which none has been read: their time is not known."""
    return [
        name
        for name in punctuation.behind
        if name not in times.seen
        and (pace := paces.get(topic_of(name))) is not None
        and pace.by == "partition"
    ]


def _ours(times: PartitionTimes, paces: Mapping[str, Pace]) -> Iterable[tuple[str, int, int, Pace]]:
    for name, (high, at) in times.seen.items():
        topic = topic_of(name)
        pace = paces.get(topic)
        if pace is not None and (name == topic or _kind(name, topic) == pace.by):
            yield name, high, at, pace


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def producer_name(topic: str, producer: str) -> str:
    """No topic's name has a colon or a slash, so a producer may be called anything."""
    return f"{topic}:{producer}"


def _kind(name: str, topic: str) -> By:
    return "partition" if name[len(topic)] == "/" else "producer"


@lru_cache(1 << 16)
def topic_of(name: str) -> str:
    return _TOPIC.split(name, maxsplit=1)[0]


def partition_of(name: str) -> int:
    return int(name.rpartition("/")[2])
