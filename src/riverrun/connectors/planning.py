"""Batches: how far each is to read. It is logged before it runs: a batch run again is the same.

An offset (a plain dictionary, as Spark logs it) holds per partition where reading stands, the tick
(wall-clock time, so that idleness replays the same), the clocks that tell what may be late, and the
identity of each topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from riverrun.connectors.files import MemoryTopics
from riverrun.connectors.kafka import KafkaTopics, TopicFacts
from riverrun.connectors.lag import LagBook
from riverrun.connectors.pacing import Pacer
from riverrun.connectors.records import Range
from riverrun.errors import TopicError
from riverrun.event_time import Punctuation, milliseconds_of, partition_name, topic_of
from riverrun.kernels.program import Program, SourceSpec

LOOK_AGAIN = 5.0
"""Seconds between looks at whether topics are still the same."""

PIECE = 1 << 16
"""Ranges are dealt to tasks in pieces that end at multiples of this offset."""

QUIET_TICK = 1_000_000
"""Microseconds between batches that only let time pass."""

Ends = dict[str, int]


@dataclass
class Offset:
    ends: dict[str, int]
    tick: int = 0
    clocks: dict[str, int] | None = None
    topics: dict[str, str] = field(default_factory=dict)
    behind: list[str] = field(default_factory=list)
    batch: int = 0
    ended: bool = False
    parallel: int = 1
    """How many tasks the batch is dealt to."""
    begins: dict[str, int] = field(default_factory=dict)
    """Where partitions begin that do not go on from the offset before: new, or with losses."""

    def logged(self) -> dict[str, Any]:
        return asdict(self)

    def punctuation(self) -> Punctuation:
        return Punctuation(tick=self.tick, ended=self.ended, behind=self.behind, clocks=self.clocks)


class Planner(Protocol):
    """Decides what the next batch reads."""

    def first(self) -> Offset: ...
    def next(self, start: Offset) -> Offset:
        """The offset that the next batch ends at; the start itself when there is nothing to do."""
        ...

    def stop_at_end(self) -> None:
        """From here on, read only what there is now."""
        ...


def now() -> int:
    return time.time_ns() // 1000


class KafkaPlanner:
    """Plans batches over Kafka topics."""

    def __init__(
        self,
        program: Program,
        topics: KafkaTopics,
        last_status: Callable[[], dict[str, Any] | None],
        pacer: Pacer,
        book: LagBook | None = None,
    ) -> None:
        self.program, self.topics = program, topics
        self.last_status, self.pacer, self.book = last_status, pacer, book
        self.looked_at = 0.0
        self.partitions: list[str] = []
        self.ids: dict[str, str] = {}
        self.limit: dict[str, int] | None = None

    def first(self) -> Offset:
        facts = self._facts()
        ends: dict[str, int] = {}
        for source in self.program.sources:
            names = _names(source.topic, facts[source.topic])
            ends.update(self._start(source, names))
        return Offset(
            ends, topics=self.ids, clocks={step.name: -(2**62) for step in self.program.steps}
        )

    def _start(self, source: SourceSpec, names: list[str]) -> dict[str, int]:
        if not names:
            return {}
        if source.start == "earliest":
            return self.topics.starts(names)
        if source.start == "latest":
            return self.topics.ends(names)
        return self.topics.at_time(names, milliseconds_of(source.start))

    def stop_at_end(self) -> None:
        self.limit = self.topics.ends(self._known())

    def next(self, start: Offset) -> Offset:
        try:
            return self._next(start)
        except TopicError as error:
            if not error.fact.startswith("there is no topic"):
                raise
            raise TopicError(
                "a topic was deleted while it was read",
                got=error.fact,
                hint="start over with `riverrun run … --fresh` when it is there again",
            ) from error

    def _ends(self) -> dict[str, int]:
        """How far may be read: what the program writes itself is never more than it will read."""
        if self.limit is None:
            return self.topics.ends(self.partitions)
        own = [n for n in self.partitions if topic_of(n) in self.program.own_topics]
        return {**self.limit, **(self.topics.ends(own) if own else {})}

    def _next(self, start: Offset) -> Offset:
        self.pacer.end()
        self._look(start)
        ends = self._ends()
        begin = self._begin(start, ends)
        planned = share(begin, ends, self.pacer.size)
        end = self._planned(start, begin, planned, ends)
        if self.book is not None:
            self.book.stands(start.ends)
            self.book.plans(planned, ends, batch=end is not start)
            if end is start and self.limit:
                self.book.close()
        if end is not start:
            self.pacer.begin(sum(planned[name] - begin[name] for name in planned))
        return end

    def _planned(self, start: Offset, begin: Ends, planned: Ends, ends: Ends) -> Offset:
        tick = now()
        status = self.last_status()
        clocks = status["clocks"] if status else None
        if start.tick == 0:
            clocks = start.clocks
        if planned == start.ends and (self.limit or not self._time_matters(start, tick, status)):
            return start
        behind = sorted(name for name, end in planned.items() if end < ends[name])
        return Offset(
            planned,
            max(tick, start.tick),
            clocks,
            self.ids,
            behind,
            start.batch + 1,
            begins={n: place for n, place in begin.items() if start.ends.get(n) != place},
        )

    def _time_matters(self, start: Offset, tick: int, status: dict[str, Any] | None) -> bool:
        """With windows open or timers waiting, time passes also when nothing arrives.

        Whether there are any is not known after a restart: one batch tells.
        """
        resumed = status is None and start.tick > 0 and bool(self.program.steps)
        waiting = resumed or bool(status and status["open"])
        return waiting and tick - start.tick >= QUIET_TICK

    def _look(self, start: Offset) -> None:
        if time.monotonic() - self.looked_at >= LOOK_AGAIN:
            self._same_topics(start)

    def _same_topics(self, start: Offset) -> None:
        for topic, fact in self._facts().items():
            if start.topics.get(topic, fact.id) != fact.id:
                raise TopicError(
                    f"the topic {topic!r} was deleted and made again",
                    got="its records are not the ones that were read so far",
                    hint="start over with `riverrun run … --fresh`",
                )

    def _facts(self) -> dict[str, TopicFacts]:
        facts = self.topics.facts([source.topic for source in self.program.sources])
        self.partitions = [name for topic, fact in facts.items() for name in _names(topic, fact)]
        self.ids = {topic: fact.id for topic, fact in facts.items()}
        self.looked_at = time.monotonic()
        return facts

    def _known(self) -> list[str]:
        if not self.partitions:
            self._facts()
        return self.partitions

    def _begin(self, start: Offset, ends: dict[str, int]) -> dict[str, int]:
        """Where each partition stands. One added to a topic is read from its beginning, a topic
        added to the program from where the program says; a topic no longer read is forgotten."""
        begin = {name: start.ends[name] for name in ends if name in start.ends}
        for source in self.program.sources:
            added = [n for n in ends if n not in begin and topic_of(n) == source.topic]
            known = source.topic in start.topics
            begin |= self.topics.starts(added) if known else self._start(source, added)
        begin = self._after_losses(begin)
        for name, place in begin.items():
            if ends[name] < place:
                self._same_topics(start)
                raise TopicError(
                    "a partition holds fewer records than were read from it",
                    where=name,
                    got=f"read up to {place}, its end is {ends[name]}",
                    hint="was the topic recreated? start over with `riverrun run … --fresh`",
                )
        return begin

    def _after_losses(self, begin: dict[str, int]) -> dict[str, int]:
        """Where reading can go on; records that retention has deleted are an error, or skipped."""
        starts = self.topics.starts(list(begin))
        lost = {name: start for name, start in starts.items() if begin[name] < start}
        for name, start in lost.items():
            if self.program.source(topic_of(name)).on_loss == "stop":
                raise TopicError(
                    "records that were still to be read are gone",
                    where=name,
                    got=f"offsets {begin[name]} to {start - 1}: retention deleted them",
                    hint='declare the stream with on_loss="skip", or start over with --fresh',
                )
        return begin | lost


def _names(topic: str, fact: TopicFacts) -> list[str]:
    return [partition_name(topic, number) for number in range(fact.partitions)]


def share(begin: dict[str, int], ends: dict[str, int], most: int) -> dict[str, int]:
    """Ends for one batch of at most about `most` records: every partition gives its share."""
    waiting = {name: ends[name] - begin[name] for name in begin}
    total = sum(waiting.values())
    if total <= most:
        return {name: ends[name] for name in begin}
    return {name: begin[name] + -(-count * most // total) for name, count in waiting.items()}


class MemoryPlanner:
    """Plans batches over topics in memory: one per cut, and one for the end."""

    def __init__(self, program: Program, topics: MemoryTopics, *, ended: bool) -> None:
        self.program, self.topics, self.ended = program, topics, ended

    def first(self) -> Offset:
        return Offset({}, clocks={step.name: -(2**62) for step in self.program.steps})

    def stop_at_end(self) -> None:
        pass

    def next(self, start: Offset) -> Offset:
        number = start.batch
        if number < len(self.topics.cuts):
            return Offset(self.topics.cuts[number], batch=number + 1)
        if self.ended and not start.ended:
            return Offset(start.ends, batch=number + 1, ended=True)
        return start


def tasks(start: Offset, end: Offset) -> list[list[Range]]:
    """Ranges to read, cut in pieces and dealt to the tasks of the batch in whole runs."""
    parallel = end.parallel
    pieces = [
        piece
        for name in sorted(end.ends)
        for piece in _pieces(name, end.begins.get(name, start.ends.get(name, 0)), end.ends[name])
    ]
    total = sum(stop - begin for _, begin, stop in pieces)
    dealt: list[list[Range]] = [[] for _ in range(parallel)]
    done = 0
    for name, begin, stop in pieces:
        mine = dealt[min(parallel - 1, done * parallel // total)]
        done += stop - begin
        if mine and mine[-1][0] == name and mine[-1][2] == begin:
            mine[-1] = (name, mine[-1][1], stop)
        else:
            mine.append((name, begin, stop))
    return [each for each in dealt if each] or [[]]


def _pieces(name: str, start: int, end: int) -> list[Range]:
    cuts = [start, *range(start - start % PIECE + PIECE, end, PIECE), end] if start < end else []
    return [(name, a, b) for a, b in pairwise(cuts)]
