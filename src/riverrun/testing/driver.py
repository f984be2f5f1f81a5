"""Runs a program without a JVM: topics in memory, batches and clocks moved by hand.

It runs the same readers, kernels and encoders as Spark does, and functions of the program's own
twice: they must give the same for the same values. It does not simulate Kafka's
transactions, Spark's scheduling, or `.spark(…)` steps.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from riverrun.app import App
from riverrun.clock import Now, Punctuation
from riverrun.control import Command, paused_after
from riverrun.delivery import encode
from riverrun.delivery.alerts import LateShares
from riverrun.delivery.encode import Line, lines, ordered
from riverrun.delivery.outbox import Outbox
from riverrun.durations import Duration, microseconds, milliseconds_of
from riverrun.errors import InputError, ProgramError, caller
from riverrun.kafka.records import Record
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.functions import run_twice
from riverrun.kernels.kept import KeptInMemory
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import Status
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.program import PlacedStep, Program, ReadTopic
from riverrun.kernels.state import SegmentCache
from riverrun.operators.lookups.by_hand import Content, TableByHand
from riverrun.operators.lookups.lookup import Lookup
from riverrun.outputs import OutputSpec
from riverrun.partitions import Range, counts
from riverrun.sources.admission import Ends
from riverrun.sources.closing import Closing
from riverrun.sources.files import MemoryTopics, as_bytes
from riverrun.sources.reading import read_ranges
from riverrun.testing.drawn import Lines, drawn_rows, parse, records

CACHE = 1 << 28


@dataclass
class MemoryStore:
    """A page's segments in a dictionary."""

    data: dict[str, bytes] = field(default_factory=dict)

    def get(self, segment: str) -> bytes:
        return self.data[segment]

    def put(self, segment: str, data: bytes) -> None:
        self.data[segment] = data

    def remove(self, segment: str) -> None:
        del self.data[segment]


Place = tuple[int, int]
"""An exchange and a page."""


@dataclass
class Checkpoint:
    """What survives a crash: how far was read, each page's state, and what was said of time."""

    read: Ends = field(default_factory=dict)
    heads: dict[Place, bytes] = field(default_factory=dict)
    stores: dict[Place, MemoryStore] = field(default_factory=dict)
    clocks: dict[str, int] | None = field(default_factory=dict)
    control: int = 0
    paused: list[str] = field(default_factory=list)


class Planned(NamedTuple):
    """What a batch is to do, as a job would log it."""

    tick: int
    ends: Ends
    ended: bool
    control: int
    closing: dict[str, int] | None


class Driver:
    """A program at rest. Nothing happens between calls.

    Its wall clock stands at zero, or at `now`, a time in ISO 8601, until `pass_time` moves it.

    >>> import riverrun as rr
    >>> app = rr.App("shop")
    >>> app.stream("views", schema="page string, ms bigint").where("ms > 500").to("slow")
    >>> out = Driver(app).run(views='''
    ...     page | ms
    ...     /a   | 100
    ...     /b   | 900
    ... ''')
    >>> out.assert_is('''
    ...     page | ms
    ...     /b   | 900
    ... ''')
    """

    def __init__(self, app: App, *, now: str | None = None) -> None:
        self.program = app.program()
        if self.program.spark_steps:
            raise ProgramError(
                "the driver cannot run .spark(…) steps",
                hint="test the function with Spark, or run `riverrun try --engine spark`",
            )
        self.topics = MemoryTopics()
        self.kept = KeptInMemory()
        """What was looked up: a batch that is run again finds the same."""
        self.by_hand: dict[str, Content] = {}
        self.wall = now is not None
        self.started_at = milliseconds_of(now, caller()) * 1000 if now else 0
        self._start_over()

    def _start_over(self) -> None:
        self.checkpoint = Checkpoint()
        own = self.program.own_topics
        self.topics.records = {
            each: kept for each, kept in self.topics.records.items() if each.topic not in own
        }
        self.tick = self.started_at
        self.status, self.last = Status(), Status()
        """What all batches told of themselves, and the last one."""
        self.late_shares = LateShares()
        self.written: list[tuple[str, Record]] = []
        """Of the last batch, in topics that the program reads itself."""
        self.outputs: dict[str, list[Line]] = {each.name: [] for each in self.program.outputs}
        self.history: list[Planned] = []
        self._start_worker()

    def _start_worker(self) -> None:
        self.reader = LotReader(self.program)
        self.kernels = [
            PageKernel(self.program, level, SegmentCache(CACHE), "driver", kept=self.kept)
            for level in range(self.program.levels)
        ]

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Steps of which more rows are late than their `late_alert` allows."""
        return self.late_shares.alerts

    def send(
        self,
        topic: str,
        *values: Any,
        key: str | None = None,
        timestamp: int = 0,
        partition: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Adds records to a topic. A dictionary is written as JSON, text and bytes as they are."""
        marks = dict(headers or {})
        for value in values:
            record = Record(as_bytes(value), as_bytes(key), timestamp, partition, marks)
            self.topics.append(topic, record)

    def lookup_table(self, table: str, rows: str | Sequence[Mapping[str, Any]] | None) -> None:
        """What lookups of a table find from now on, instead of what its database holds.

        Rows are dictionaries, or drawn; None: the database is away.
        """
        given = drawn_rows(rows) if isinstance(rows, str) else rows
        content = None if given is None else list(given)
        if table in self.by_hand:
            self.by_hand[table].rows = content
            return
        self.by_hand[table] = Content(content)
        self.program = _reading(self.program, TableByHand(table, self.by_hand[table]))
        self._start_worker()

    def control(self, kind: str, target: str, **body: Any) -> None:
        """Adds a command to the control log: it takes effect with the next batch."""
        self.topics.asked.append(Command(len(self.topics.asked), kind, target, body))

    def run(self, **drawn: str) -> Lines:
        """Runs the batches of drawn tables, one per topic, and returns what comes out of them.

        The n-th batch of each table is part of the n-th batch. See `riverrun.testing.drawn`.
        """
        topics = {
            topic: list(records(parse(text), self._source(topic))) for topic, text in drawn.items()
        }
        found = Lines()
        for number in range(max(map(len, topics.values()), default=0)):
            for topic, batches in topics.items():
                for record in batches[number] if number < len(batches) else ():
                    self.topics.append(topic, record)
            found += self.batch()
        return found

    def _source(self, topic: str) -> ReadTopic:
        known = {source.topic: source for source in self.program.sources}
        if topic not in known:
            raise InputError(
                f"the program does not read {topic!r}", hint=f"it reads: {', '.join(known)}"
            )
        return known[topic]

    def batch(self, *, ended: bool = False) -> Lines:
        """Reads all that was sent, and returns what comes out."""
        return self.batch_up_to(self.topics.ends(), ended=ended)

    def batch_up_to(self, ends: Ends, *, ended: bool = False) -> Lines:
        """Reads up to these offsets, with all of the control log."""
        return self._commit(self._plan(ends, ended=ended))

    def _plan(
        self, ends: Ends, *, ended: bool = False, closing: dict[str, int] | None = None
    ) -> Planned:
        return Planned(self.tick, dict(ends), ended, len(self.topics.asked), closing)

    def _commit(self, planned: Planned) -> Lines:
        found, checkpoint, status = self._run(planned)
        for topic, record in self.written:
            self.topics.append(topic, record)
        self.history.append(planned)
        self.topics.answer(self.program.name, [Command(**each) for each in status.answers])
        self.checkpoint = checkpoint
        self.last = status
        self.status.add(status)
        self.late_shares.add(self.program.late_alerts, status)
        for line in found:
            self.outputs[line["output"]].append(line)
        return Lines(found)

    def crash(self) -> None:
        """Runs the next batch and dies before it is committed: nothing of it remains."""
        self._run(self._plan(self.topics.ends()))
        self.restart()

    def restart(self) -> None:
        """Starts anew from the checkpoint: caches are gone, and what may be late is not known."""
        self._start_worker()
        self.checkpoint = copy.deepcopy(self.checkpoint)
        self.checkpoint.clocks = None

    def replay(self) -> Lines:
        """Starts over with nothing but the topics, and runs the same batches at the same times."""
        history = self.history
        self._start_over()
        found = Lines()
        for planned in history:
            self.tick = planned.tick
            found += self._commit(planned)
        return found

    def pass_time(self, duration: Duration | timedelta) -> Lines:
        """Moves the wall clock and runs a batch."""
        self.tick += microseconds(duration)
        return self.batch()

    def end(self) -> Lines:
        """The input has ended: every window closes."""
        return self.batch(ended=True)

    def close(self) -> Lines:
        """All that there is was read, as with `riverrun run --once --close`: windows close, and
        their clocks are no further than that."""
        found, closing = self.batch(), Closing(self.program)
        while (clocks := closing.next(asdict(self.last))) is not None:
            found += self._commit(self._plan(self.topics.ends(), closing=clocks))
            if self.written:
                found += self.batch()
                closing.goes_on()
        return found

    def table(self, output: str) -> list[dict[str, Any]]:
        """The rows of a table as they stand, by key."""
        rows: dict[str, dict[str, Any]] = {}
        for line in self.outputs[output]:
            if line["op"] == "+":
                rows[str(line["key"])] = line["value"]
            elif rows.get(str(line["key"])) == line["value"]:
                del rows[str(line["key"])]
        return [rows[key] for key in sorted(rows)]

    def _run(self, planned: Planned) -> tuple[list[Line], Checkpoint, Status]:
        with run_twice():
            return self._batch(planned)

    def _batch(self, planned: Planned) -> tuple[list[Line], Checkpoint, Status]:
        start, ends, control = self.checkpoint, planned.ends, planned.control
        commands = self.topics.commands(self.program.name, start.control, control)
        paused = paused_after(start.paused, commands, self.program.topics)
        held = {p: end for p, end in ends.items() if p.topic in paused}
        behind = [p for p, end in held.items() if end > start.read.get(p, 0)]
        ends = {p: end for p, end in ends.items() if p not in held}
        punctuation = Punctuation(
            tick=self.tick, ended=planned.ended, clocks=start.clocks, control=control,
            paused=paused, commands=commands, behind=self.program.with_keepers(behind),
            batch=len(self.history), partitions=counts(self.topics.ends()),
            closing=planned.closing,
        )  # fmt: skip
        outbox = Outbox(self.program, self.reader.evaluator, self.topics.originals)
        chunks = self._read(ends, punctuation)
        checkpoint = Checkpoint({**start.read, **ends}, control=control, paused=paused)
        for level in range(len(self.kernels)):
            chunks = [
                chunk
                for page in range(self.program.pages)
                for chunk in self._visit((level, page), chunks, checkpoint)
            ]
            chunks = list(self.reader.forward(chunks)) if level + 1 < len(self.kernels) else chunks
        for chunk in chunks:
            outbox.add(chunk)
        checkpoint.clocks = dict(outbox.status.clocks)
        made = list(outbox.outputs())
        self.written = list(self._read_again(made))
        found = [
            line for output, rows in made for line in lines(output, rows, self.reader.evaluator)
        ]
        return ordered(found), checkpoint, outbox.status

    def _read_again(self, made: list[tuple[OutputSpec, pa.Table]]) -> Iterator[tuple[str, Record]]:
        """What the program writes to topics that it reads itself."""
        own = self.program.own_topics
        for output, rows in made:
            if (topic := output.sink.kafka_topic()) in own:
                for each in encode.records(output, rows, self.reader.evaluator).to_pylist():
                    value, key, at = each["value"], each["key"], each["timestamp"]
                    yield topic, Record(as_bytes(value), as_bytes(key), at or 0, 0, {})

    def _read(self, ends: Ends, punctuation: Punctuation) -> list[Chunk]:
        ranges = [
            Range(each, self.checkpoint.read.get(each, 0), end)
            for each, end in ends.items()
            if each.topic in self.program.topics
        ]
        now = Now(self.tick, self.wall, self.checkpoint.clocks)
        lots = read_ranges(self.topics, self.reader, ranges, now, punctuation)
        return [chunk for chunks in lots for chunk in chunks]

    def _visit(self, place: Place, chunks: list[Chunk], checkpoint: Checkpoint) -> list[Chunk]:
        level, page = place
        store = copy.deepcopy(self.checkpoint.stores.get(place, MemoryStore()))
        head = self.checkpoint.heads.get(place)
        ours = [chunk for chunk in chunks if chunk.page == page]
        new_head, out = self.kernels[level].visit(page, head, store, ours)
        checkpoint.stores[place] = store
        checkpoint.heads[place] = new_head or head or b""
        return out


def _reading(program: Program, table: TableByHand) -> Program:
    """The program, with lookups of a table that is given by hand."""
    steps = tuple(_step_reading(step, table) for step in program.steps)
    if steps == program.steps:
        raise InputError(f"the program has no lookup in {table.table!r}")
    return replace(program, steps=steps)


def _step_reading(step: PlacedStep, table: TableByHand) -> PlacedStep:
    does = step.does
    if isinstance(does, Lookup) and does.reads.table == table.table:
        return replace(step, does=does.reading(table))
    return step
