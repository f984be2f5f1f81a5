"""The clock: how far event time has come, and why not further. Times are microseconds."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from riverrun.control import Command
from riverrun.durations import BEGINNING, END
from riverrun.partitions import Partition, as_texts, from_texts, partition_of, producer_text

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
    first: bool = False
    """Whether nothing was read before."""
    stands: dict[str, int] = field(default_factory=dict)
    """Of the first batch: how far all partitions are read with it, also where that is nothing."""


@dataclass
class Punctuation:
    """What one batch tells of time: the wall-clock tick, and how far each source has come."""

    tick: int = 0
    ended: bool = False
    highs: dict[Partition, int] = field(default_factory=dict)
    """The highest event time read in this batch, of each partition."""
    behind: list[Partition] = field(default_factory=list)
    """Partitions that hold records beyond this batch."""
    clocks: dict[str, int] | None = None
    """Where the clocks stood before the batch, if it is known."""
    control: int = 0
    """How far the control log has taken effect with this batch."""
    paused: list[str] = field(default_factory=list)
    """Topics that are not read until they are resumed."""
    commands: list[Command] = field(default_factory=list)
    """Those that take effect with this batch."""
    partitions: dict[str, int] = field(default_factory=dict)
    """How many each topic has."""
    batch: int = 0
    """The number that the batch was logged with."""
    point: dict[str, Any] = field(default_factory=dict)
    """Where somebody asks: how people call the batch, and how far each partition is read with it
    (`batch`, `ends`)."""
    closing: dict[str, int] | None = None
    """All there is was read, and windows are to close: how far the clocks of steps go at least."""
    over: list[Partition] = field(default_factory=list)
    """Partitions of which nothing more will be read, whatever comes."""
    came: dict[Partition, int] = field(default_factory=dict)
    """When the last record came, by the tick, of partitions that were read to their end with this
    batch and had been silent before."""
    producers: dict[str, dict[str, int]] = field(default_factory=dict)
    """The highest event time read in this batch of each producer, by topic and name."""

    def add(self, other: Punctuation) -> None:
        self.tick = max(self.tick, other.tick)
        self.batch = max(self.batch, other.batch)
        self.ended = self.ended or other.ended
        self.closing = other.closing if self.closing is None else self.closing
        self.behind = sorted({*self.behind, *other.behind})
        self.over = sorted({*self.over, *other.over})
        self.came = self.came | other.came
        self.clocks = other.clocks if self.clocks is None else self.clocks
        self.control = max(self.control, other.control)
        self.paused = sorted({*self.paused, *other.paused})
        self.commands = self.commands + other.commands
        self.partitions = self.partitions | other.partitions
        self.point = self.point | other.point
        self.highs = _highest(self.highs, other.highs)
        for topic, highs in other.producers.items():
            self.producers[topic] = _highest(self.producers.get(topic, {}), highs)

    def encoded(self) -> bytes:
        behind = [str(partition) for partition in self.behind]
        commands = [vars(command) for command in self.commands]
        told: dict[str, Any] = {"highs": as_texts(self.highs), "behind": behind}
        told |= {"commands": commands, "came": as_texts(self.came)}
        told["over"] = [str(partition) for partition in self.over]
        return zlib.compress(json.dumps({**vars(self), **told}).encode(), 1)

    @classmethod
    def decoded(cls, data: bytes) -> Punctuation:
        facts: dict[str, Any] = json.loads(zlib.decompress(data))
        highs = from_texts(facts.pop("highs"))
        commands = [Command(**each) for each in facts.pop("commands")]
        behind, over = (list(map(partition_of, facts.pop(name))) for name in ("behind", "over"))
        came = from_texts(facts.pop("came"))
        return cls(**facts, highs=highs, behind=behind, commands=commands, over=over, came=came)

    @classmethod
    def together(cls, encoded: Iterable[bytes]) -> Punctuation:
        """What all tasks of a batch tell."""
        found = cls()
        for each in encoded:
            found.add(cls.decoded(each))
        return found

    def idle_since(self, topic: str, pace: Pace) -> int:
        """A producer of the topic is silent if its last record came at this tick, or before it.

        Which partition its next record will be in is not known: none may be behind.
        """
        if any(partition.topic == topic for partition in self.behind):
            return BEGINNING
        return self.tick - pace.idle

    def idle(self, partition: Partition, at: int, pace: Pace) -> bool:
        """Whether one whose last record came at the tick `at` is silent, and read to the end."""
        silent = self.tick - at >= pace.idle and partition not in self.behind
        return silent or partition in self.over


T = TypeVar("T", Partition, str)


def _highest(known: dict[T, int], told: dict[T, int]) -> dict[T, int]:
    """Of each the higher one. There may be thousands of producers."""
    if not known:
        return told
    return known | {name: high for name, high in told.items() if high > known.get(name, high - 1)}


@dataclass
class ProducerTimes:
    """Of the producers of a topic, by name, the highest event time, and the tick it came at."""

    highs: dict[str, int] = field(default_factory=dict)
    ticks: dict[str, int] = field(default_factory=dict)
    ahead: int | None = None
    """The furthest that one of those who were forgotten was ahead of the tick."""

    def forget(self, names: Iterable[str]) -> None:
        gone = set(names)
        if gone:
            left = [self.highs[name] - self.ticks[name] for name in gone]
            self.ahead = max([*left, *([] if self.ahead is None else [self.ahead])])
            self._keep(gone)

    def _keep(self, gone: set[str]) -> None:
        self.highs = {name: high for name, high in self.highs.items() if name not in gone}
        self.ticks = {name: at for name, at in self.ticks.items() if name not in gone}

    def idle(self, since: int) -> list[str]:
        return [name for name, at in self.ticks.items() if at <= since]


@dataclass
class PartitionTimes:
    """The memory behind a clock: per source the highest event time, and the tick it came at."""

    seen: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    producers: dict[str, ProducerTimes] = field(default_factory=dict)
    """By topic, where the program asks for the time of producers."""

    def encoded(self) -> dict[str, Any]:
        """As JSON has it."""
        producers = {topic: vars(times) for topic, times in self.producers.items()}
        return {"seen": as_texts(self.seen), "producers": producers}

    @classmethod
    def decoded(cls, facts: Mapping[str, Any]) -> PartitionTimes:
        seen = {each: (high, at) for each, (high, at) in from_texts(facts["seen"]).items()}
        return cls(seen, {topic: ProducerTimes(**t) for topic, t in facts["producers"].items()})

    def copied(self) -> PartitionTimes:
        producers = {topic: replace(times) for topic, times in self.producers.items()}
        return PartitionTimes(dict(self.seen), producers)

    def note(self, punctuation: Punctuation) -> None:
        for name, high in punctuation.highs.items():
            known = self.seen.get(name, (high, 0))[0]
            came = punctuation.came.get(name, punctuation.tick)
            self.seen[name] = (max(known, high), came)
        for topic, highs in punctuation.producers.items():
            times = self.producers.setdefault(topic, ProducerTimes())
            times.highs = _highest(times.highs, highs)
            times.ticks = times.ticks | dict.fromkeys(highs, punctuation.tick)

    def forget(self, punctuation: Punctuation, paces: Mapping[str, Pace]) -> None:
        """Idle producers leave, so that memory holds only those there are. So does what is left of
        another kind of source, from before the program was changed."""
        for topic, pace in paces.items():
            if pace.by != "partition":
                self.seen = {p: times for p, times in self.seen.items() if p.topic != topic}
            if topic in self.producers:
                times, since = self.producers[topic], punctuation.idle_since(topic, pace)
                if pace.by == "producer":
                    times.forget(times.idle(since))
                else:
                    times.highs, times.ticks = {}, {}


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
    if unseen := _unseen(times, punctuation, paces):
        return Clock(before, str(unseen[0]))
    told = list(_told(times, punctuation, paces))
    shown = tuple(sorted(name for each in told for name in each.idle))
    busy = [each.slowest for each in told if each.slowest is not None]
    busy += [
        (punctuation.tick - pace.lateness, PROCESSING)
        for pace in paces.values()
        if pace.by == "tick"
    ]
    if busy:
        slowest, name = min(busy)
        return Clock(max(before, slowest), name, shown)
    running_on = [each.ahead + punctuation.tick for each in told]
    return Clock(max([before, *running_on]), None, shown)


def release(
    times: PartitionTimes,
    punctuation: Punctuation,
    paces: tuple[Mapping[str, Pace], Mapping[str, Pace]],
    before: int,
) -> int:
    """How far a table is known that rows wait for; never goes back. Rows before it need not wait.

    `paces` are those of all sources, and of the table's. Its slowest source that is not idle
    decides. When all are idle, or all is read and to be closed, rows that have been read up to now
    wait no more.
    """
    if punctuation.ended:
        return END
    every, table = paces
    if _unseen(times, punctuation, table):
        return before
    if any(pace.by == "tick" for pace in table.values()):
        return max(before, punctuation.tick)
    found = _told(times, punctuation, table) if punctuation.closing is None else ()
    if busy := [each.slowest[0] for each in found if each.slowest is not None]:
        return max(before, min(busy))
    return max([before, *(each.high + 1 for each in _told(times, punctuation, every))])


def _unseen(
    times: PartitionTimes, punctuation: Punctuation, paces: Mapping[str, Pace]
) -> list[Partition]:
    """Partitions that hold records of which none has been read: their time is not known."""
    return [
        name
        for name in punctuation.behind
        if name not in times.seen
        and (pace := paces.get(name.topic)) is not None
        and pace.by == "partition"
    ]


class _Told(NamedTuple):
    """What a partition, or all producers of a topic, tell of time."""

    slowest: tuple[int, str] | None
    """The time of the slowest that is not idle, less lateness, and its name."""
    idle: list[str]
    ahead: int
    """How far the furthest was ahead of the tick, less lateness."""
    high: int


def _told(times: PartitionTimes, said: Punctuation, paces: Mapping[str, Pace]) -> Iterable[_Told]:
    for partition, (high, at) in times.seen.items():
        pace = paces.get(partition.topic)
        if pace is not None and pace.by == "partition":
            # of one that is over, time does not go on
            name, since = str(partition), said.tick if partition in said.over else at
            ahead = high - since - pace.lateness
            if said.idle(partition, at, pace):
                yield _Told(None, [name], ahead, high)
            else:
                yield _Told((high - pace.lateness, name), [], ahead, high)
    for topic, producers in times.producers.items():
        pace = paces.get(topic)
        if pace is not None:
            yield from _producers_told(topic, producers, pace, said.idle_since(topic, pace))


def _producers_told(topic: str, times: ProducerTimes, pace: Pace, since: int) -> Iterable[_Told]:
    """Those who were forgotten tell only how time goes on when all are silent."""
    if times.ahead is not None:
        yield _Told(None, [], times.ahead - pace.lateness, times.ahead)
    if pace.by != "producer" or not times.highs:
        return
    idle = times.idle(since)
    silent = set(idle)
    busy = {n: high for n, high in times.highs.items() if n not in silent} if idle else times.highs
    high, slowest = max(times.highs.values()), None
    if busy:
        low = min(busy.values())
        name = min(name for name, high in busy.items() if high == low)
        slowest = (low - pace.lateness, producer_text(topic, name))
    ahead = max(high - times.ticks[name] for name, high in times.highs.items())
    shown = [producer_text(topic, name) for name in idle]
    yield _Told(slowest, shown, ahead - pace.lateness, high)
