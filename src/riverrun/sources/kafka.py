"""Kafka as a source: batches planned by what brokers hold, lots read with a consumer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby

import pyarrow as pa

from riverrun.archive.held import Archived
from riverrun.archive.reading import ArchivedRanges
from riverrun.config import Calls
from riverrun.control import Command, first_of, made_anew, paused_after
from riverrun.durations import milliseconds_of
from riverrun.errors import NoTopic, RecordsGone, RiverrunError, TopicError
from riverrun.kafka.answers import AnswerTopic
from riverrun.kafka.control import ControlLog
from riverrun.kafka.first_at import first_at
from riverrun.kafka.lag import LAG, LagBook
from riverrun.kafka.librdkafka import Way, way_of
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import OUTAGE, KafkaTopics, TopicFacts
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import Partition, Range, from_texts
from riverrun.sources.admission import Admitted, Ends, admit
from riverrun.sources.closing import Closing
from riverrun.sources.course import Arrivals, Course
from riverrun.sources.gate import Gate
from riverrun.sources.histories import Histories
from riverrun.sources.pacing import Weights
from riverrun.sources.planning import Offset, Planner, first_clocks
from riverrun.sources.records import lot_of, ranges_per_lot
from riverrun.sources.source import Circumstances, Source

CLOSE = 1_000
"""Records between two that are wanted: fewer are read, and forgotten."""

LOOK_AGAIN = 5.0
"""Seconds between looks at whether topics are still the same."""

QUIET_TICK = 1_000_000
"""Microseconds between batches that only let time pass."""


@dataclass(frozen=True)
class KafkaSource(Source):
    """Topics of a cluster. `client` are librdkafka's settings."""

    client: Mapping[str, str] = field(repr=False)
    reader: Calls = "quickest"
    archived: Archived | None = None
    """What is read from an archive in place of topics."""
    wall = True

    def planner(self, job: Circumstances) -> KafkaPlanner:
        topics = KafkaTopics(self.client, patience=OUTAGE)
        book = LagBook(job.program.name, topics.admin, job.folder / LAG)
        log = ControlLog(self.client, job.program.name)
        log.make()
        gate = Gate.of(self.client, job.version, job.folder) if job.version else None
        return KafkaPlanner(job, topics, book, log, gate)

    def commands(self, application: str, start: int, end: int) -> list[Command]:
        return ControlLog(self.client, application).commands(start, end)

    def answer(self, application: str, answers: list[Command]) -> None:
        ControlLog(self.client, application).send(*answers)

    def reply(self, application: str, parts: list[bytes]) -> None:
        with suppress(RiverrunError):  # who asks gives up by itself; the job goes on
            AnswerTopic(self.client, application).send(parts)

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        # no name here holds a lot while the next one is read
        found = self._reader.read(ranges_per_lot(ranges), with_headers)
        return filter(None, map(lot_of, found))

    def originals(self, places: list[RecordPlace]) -> dict[RecordPlace, Original]:
        wanted = set(places)
        topics = frozenset(place.topic for place in places)
        found: dict[RecordPlace, Original] = {}
        for around in _around(places):  # one at a time: a partition may have several
            with suppress(RecordsGone):  # retention was faster
                [read] = self._reader.read([[around]], topics)
                originals = _originals(around.partition, read[around.partition])
                found |= {place: each for place, each in originals if place in wanted}
        return found

    @property
    def _reader(self) -> RangeReader:
        return _reader(json.dumps(dict(self.client)), way_of(self.reader), self.archived)


@cache
def _reader(client: str, way: Way, archived: Archived | None) -> RangeReader:
    if archived is None:
        return RangeReader(json.loads(client), way)
    return ArchivedRanges(json.loads(client), way, archived)


class KafkaPlanner(Planner):
    """Plans batches over Kafka topics."""

    def __init__(
        self,
        job: Circumstances,
        topics: KafkaTopics,
        book: LagBook | None = None,
        log: ControlLog | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.program, self.pacer, self.last_status = job.program, job.pacer, job.last_status
        self.topics, self.book, self.log, self.gate = topics, book, log, gate
        self.closing = Closing(job.program) if job.close else None
        self.looked_at = 0.0
        self.partitions: list[Partition] = []
        self.ids: dict[str, str] = {}
        self.limit: Ends | None = None
        self.span = job.span
        self.course = Course() if job.program.steps else None
        self.arrivals = Arrivals()
        self.weights = Weights()

    def first(self) -> Offset:
        facts = self._facts()
        ends: Ends = {}
        for source in self.program.sources:
            partitions = _partitions(source.topic, facts[source.topic])
            given = {
                each: self.span.begins[each] for each in partitions if each in self.span.begins
            }
            ends |= given or self._start(source, partitions)
        return Offset(ends, topics=self.ids, clocks=first_clocks(self.program))

    def _start(self, source: ReadTopic, partitions: list[Partition]) -> Ends:
        if source.start == "earliest":
            return self.topics.starts(partitions)
        if source.start == "latest":
            return self.topics.ends(partitions)
        return first_at(self.topics, partitions, milliseconds_of(source.start))

    def stop_at_end(self) -> None:
        self.limit = self.span.limited(self.topics.ends(self._known()))

    def next(self, start: Offset) -> Offset:
        try:
            return self._next(start)
        except NoTopic as error:
            raise TopicError(
                "a topic was deleted while it was read",
                got=error.fact,
                hint="start over with `riverrun run … --fresh` when it is there again",
            ) from error

    def _ends(self) -> Ends:
        """How far may be read: what the program writes itself is never more than it will read."""
        if self.limit is None:
            return self.topics.ends(self.partitions)
        own = [each for each in self.partitions if each.topic in self.program.own_topics]
        return {**self.limit, **self.topics.ends(own)}

    def _next(self, start: Offset) -> Offset:
        self.pacer.end()
        self._look(start)
        control, commands = self._controlled(start)
        paused = paused_after(start.paused, commands, self.program.topics)
        histories = Histories.after(start.histories, self.program.histories, made_anew(commands))
        ends = self._ends()
        if self.limit is None:  # else nobody looks whether more has come
            self.arrivals.note(ends, _now())
        limit = self.gate.limit(start.ends) if self.gate else None
        if limit is not None and limit.holds(start.ends):
            return start
        begin = histories.begin(self._begin(start, ends), self.topics.starts)
        ends = histories.ends(begin, ends, start.targets)
        held = histories.held(paused)
        reading = {p: begin[p] if p.topic in held else end for p, end in ends.items()}
        if limit is not None:
            reading = limit.limited(begin, reading)
        highs = self._highs(start)
        targets = histories.targets(start.targets)
        admitted = self._admitted(targets, begin, reading)
        asked = control > start.control and not self.limit  # it takes effect now
        reads = admitted.ends != start.ends or admitted.ends != begin
        closing = None if reads else self._closing()
        if not (reads or asked or self._due(start) or closing is not None):
            end = start
        else:
            end = replace(
                self._batch(start, begin, admitted, ends),
                control=control, paused=paused, highs=highs, closing=closing,
                histories=dict(histories.versions),
            )  # fmt: skip
            if reads and self.closing:
                self.closing.goes_on()
            if not admitted.look:
                self.pacer.begin(sum(place - begin[p] for p, place in admitted.ends.items()))
        self._note(start, admitted, ends, batch=end is not start)
        return end

    def _closing(self) -> dict[str, int] | None:
        """How far clocks go now that all is read, if windows are to close."""
        if self.closing is None or self.limit is None:
            return None
        return self.closing.next(self.last_status())

    def _admitted(self, targets: Ends, begin: Ends, ends: Ends) -> Admitted:
        waiting = {each.topic for each, end in ends.items() if end > begin[each]}
        first = self.program.loading.first
        held = {topic for topic in waiting if not waiting.isdisjoint(first.get(topic, ()))}

        def fitting(topics: set[str], ends: Ends) -> Admitted:
            most = min(self.pacer.size, self.weights.bound(topics))
            return admit(begin, ends, most, first=first, targets=targets, course=self.course)

        found = fitting(waiting, ends)
        if not found.targets or not held:
            return found
        # tables do not fit together with what waits for them: they alone say how much fits
        return fitting(waiting - held, {p: begin[p] if p.topic in held else ends[p] for p in ends})

    def _highs(self, start: Offset) -> Ends:
        """The highest event times that are known. Topics that the program writes, and those whose
        time is the tick's, are read as they come."""
        status, paces = self.last_status(), self.program.paces
        self.weights.note(status.get("sizes", {}) if status else {})
        highs = dict(start.highs)
        for partition, high in from_texts(status["highs"] if status else {}).items():
            highs[partition] = max(high, highs.get(partition, high))
        nobody = {*self.program.own_topics, *(t for t in paces if paces[t].by == "tick")}
        timed = {p: high for p, high in highs.items() if p.topic not in nobody}
        if self.course is not None:
            self.course.note(start.ends, timed, _now())
        return highs

    def _note(self, start: Offset, admitted: Admitted, ends: Ends, *, batch: bool) -> None:
        if self.book is not None:
            once = self.program.histories  # nobody is behind with them
            self.book.stands({p: end for p, end in start.ends.items() if p.topic not in once})
            number = start.batch if batch else None
            self.book.plans(admitted.ends, ends, batch=number, targets=admitted.targets)
            if not batch and self.limit:
                self.book.close()

    def _controlled(self, start: Offset) -> tuple[int, list[Command]]:
        """How far the control log has come, and what it says."""
        if self.log is None:
            return start.control, []
        end = self.topics.ends([self.log.partition])[self.log.partition]
        commands = self.log.commands(start.control, end)
        end = first_of(commands, end, _now())
        return end, [each for each in commands if each.offset < end]

    def _due(self, start: Offset) -> bool:
        """Whether there is to be a batch though nothing is to be read."""
        if start.batch == 0 and any(each.start != "earliest" for each in self.program.sources):
            return True  # from here on it is known where reading began
        return not self.limit and self._time_matters(start)

    def _batch(self, start: Offset, begin: Ends, admitted: Admitted, ends: Ends) -> Offset:
        tick, status = _now(), self.last_status()
        clocks = status["clocks"] if status else None
        if start.tick == 0:
            clocks = start.clocks
        behind = sorted(name for name, end in admitted.ends.items() if end < ends[name])
        # the first batch has nothing before it that is logged
        new = {n: p for n, p in begin.items() if start.batch == 0 or start.ends.get(n) != p}
        return Offset(
            admitted.ends,
            max(tick, start.tick),
            clocks,
            self.ids,
            behind,
            start.batch + 1,
            begins=new,
            targets=admitted.targets,
            over=self._over(admitted.ends),
            came=self.arrivals.of_last(begin, admitted.ends, tick),
        )

    def _over(self, read: Ends) -> list[Partition]:
        """What comes after the end of a replay is never read; after that of a run that closes what
        is open, all is late that could wait for it."""
        if self.limit is None or not (self.closing or self.span.ends):
            return []
        theirs = (p for p in self.limit if p.topic not in self.program.own_topics)
        return sorted(p for p in theirs if read.get(p, 0) >= self.limit[p])

    def _time_matters(self, start: Offset) -> bool:
        """With windows open or timers waiting, time passes also when nothing arrives.

        Whether there are any is not known after a restart: one batch tells.
        """
        status = self.last_status()
        resumed = status is None and start.tick > 0 and bool(self.program.steps)
        waiting = resumed or bool(status and status["open"])
        return waiting and _now() - start.tick >= QUIET_TICK

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
        self.partitions = [p for topic, fact in facts.items() for p in _partitions(topic, fact)]
        self.ids = {topic: fact.id for topic, fact in facts.items()}
        self.looked_at = time.monotonic()
        return facts

    def _known(self) -> list[Partition]:
        if not self.partitions:
            self._facts()
        return self.partitions

    def _begin(self, start: Offset, ends: Ends) -> Ends:
        """Where each partition stands. One added to a topic is read from its beginning, a topic
        added to the program from where the program says; a topic no longer read is forgotten."""
        begin = {name: start.ends[name] for name in ends if name in start.ends}
        for source in self.program.sources:
            added = [n for n in ends if n not in begin and n.topic == source.topic]
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

    def _after_losses(self, begin: Ends) -> Ends:
        """Where reading can go on; records that retention has deleted are an error, or skipped."""
        starts = self.topics.starts(begin)
        lost = {
            name: start
            for name, start in starts.items()
            if begin[name] < start and not self.span.in_archive(name, begin[name])
        }
        for name, start in lost.items():
            if self.program.source(name.topic).on_loss == "stop":
                raise RecordsGone(
                    "records that were still to be read are gone",
                    where=name,
                    got=f"offsets {begin[name]} to {start - 1}: retention deleted them",
                    hint='declare the stream with on_loss="skip", or start over with --fresh',
                )
        return begin | lost


def _now() -> int:
    return time.time_ns() // 1000


def _partitions(topic: str, fact: TopicFacts) -> list[Partition]:
    return [Partition(topic, number) for number in range(fact.partitions)]


def _around(places: list[RecordPlace]) -> Iterator[Range]:
    """Ranges that hold all places. Those close to each other are read at once."""
    for place, group in groupby(sorted(places), key=lambda place: place[:2]):
        offsets = [each.offset for each in group]
        start = end = offsets[0]
        for offset in offsets:
            if offset > end + CLOSE:
                yield Range(Partition(*place), start, end)
                start = offset
            end = offset + 1
        yield Range(Partition(*place), start, end)


def _originals(partition: Partition, found: pa.Table) -> Iterator[tuple[RecordPlace, Original]]:
    for each in found.to_pylist():
        headers = [(header["name"], header["value"]) for header in each["__headers"] or ()]
        place = RecordPlace(*partition, each["__offset"])
        yield place, Original(each["__key"], each["__value"], each["__timestamp"], headers)
