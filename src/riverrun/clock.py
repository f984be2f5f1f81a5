"""The clock: how far event time has come, and why not further. Times are microseconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from riverrun.control import Command
from riverrun.durations import END
from riverrun.partitions import Forgotten, Partition, Producer, TimeKeeper, keeper_of, partition_of

PROCESSING = "processing time"
"""Who holds a clock back that is the tick's."""

By = Literal["partition", "producer", "tick"]
KINDS: dict[type[TimeKeeper], By] = {Partition: "partition", Producer: "producer"}


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


@dataclass
class Punctuation:
    """What one batch tells of time: the wall-clock tick, and how far each source has come."""

    tick: int = 0
    ended: bool = False
    highs: dict[TimeKeeper, int] = field(default_factory=dict)
    """The highest event time read in this batch, of each partition or producer."""
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

    def add(self, other: Punctuation) -> None:
        self.tick = max(self.tick, other.tick)
        self.batch = max(self.batch, other.batch)
        self.ended = self.ended or other.ended
        self.closing = other.closing if self.closing is None else self.closing
        self.behind = sorted({*self.behind, *other.behind})
        self.clocks = other.clocks if self.clocks is None else self.clocks
        self.control = max(self.control, other.control)
        self.paused = sorted({*self.paused, *other.paused})
        self.commands = self.commands + other.commands
        self.partitions = self.partitions | other.partitions
        self.point = self.point | other.point
        for name, high in other.highs.items():
            self.highs[name] = max(high, self.highs.get(name, high))

    def encoded(self) -> bytes:
        highs = {str(name): high for name, high in self.highs.items()}
        behind = [str(partition) for partition in self.behind]
        commands = [vars(command) for command in self.commands]
        told = {"highs": highs, "behind": behind, "commands": commands}
        return json.dumps({**vars(self), **told}).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Punctuation:
        facts: dict[str, Any] = json.loads(data)
        highs = {keeper_of(text): high for text, high in facts.pop("highs").items()}
        commands = [Command(**each) for each in facts.pop("commands")]
        behind = list(map(partition_of, facts.pop("behind")))
        return cls(**facts, highs=highs, behind=behind, commands=commands)

    def idle(self, name: TimeKeeper, at: int, pace: Pace) -> bool:
        """Whether a source whose last record came at the tick `at` is silent, and read to the end.

        Which partition a producer's next record will be in is not known: none may be behind.
        """
        if self.tick - at < pace.idle:
            return False
        if pace.by == "partition":
            return name not in self.behind
        return all(partition.topic != name.topic for partition in self.behind)


@dataclass
class PartitionTimes:
    """The memory behind a clock: per source the highest event time, and the tick it came at.

    Producers that are forgotten leave one entry for all of their topic.
    """

    seen: dict[TimeKeeper, tuple[int, int]] = field(default_factory=dict)

    def encoded(self) -> str:
        return json.dumps({str(name): times for name, times in self.seen.items()})

    @classmethod
    def decoded(cls, text: str) -> PartitionTimes:
        return cls({keeper_of(name): (high, at) for name, (high, at) in json.loads(text).items()})

    def note(self, punctuation: Punctuation) -> None:
        for name, high in punctuation.highs.items():
            known = self.seen.get(name, (high, 0))[0]
            self.seen[name] = (max(known, high), punctuation.tick)

    def forget(self, punctuation: Punctuation, paces: Mapping[str, Pace]) -> None:
        """Idle producers leave, so that memory holds only those there are."""
        for name, (high, at) in list(self.seen.items()):
            pace = paces.get(name.topic)
            if pace is None or isinstance(name, Forgotten):
                continue
            if KINDS[type(name)] != pace.by:  # the program was changed
                del self.seen[name]
            elif pace.by == "producer" and punctuation.idle(name, at, pace):
                del self.seen[name]
                left = Forgotten(name.topic)
                known = self.seen.get(left, (high - at, 0))[0]
                self.seen[left] = (max(known, high - at), 0)


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
        return Clock(before, str(unseen[0]))
    known = [each for each in ours if not isinstance(each[0], Forgotten)]
    idle = {name for name, _, at, pace in known if punctuation.idle(name, at, pace)}
    shown = tuple(sorted(map(str, idle)))
    busy = [(high - pace.lateness, str(name)) for name, high, _, pace in known if name not in idle]
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
    busy = [
        high - pace.lateness
        for name, high, at, pace in _ours(times, table)
        if punctuation.closing is None
        and not isinstance(name, Forgotten)
        and not punctuation.idle(name, at, pace)
    ]
    known = busy or [high + 1 for _, high, _, _ in _ours(times, every)]
    return max([before, *([min(known)] if busy else known)])


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


def _ours(
    times: PartitionTimes, paces: Mapping[str, Pace]
) -> Iterable[tuple[TimeKeeper, int, int, Pace]]:
    for name, (high, at) in times.seen.items():
        pace = paces.get(name.topic)
        if pace is not None and (isinstance(name, Forgotten) or KINDS[type(name)] == pace.by):
            yield name, high, at, pace
