"""Runs a program without a JVM: topics in memory, batches and clocks moved by hand.

It runs the same readers, kernels and encoders as Spark does, and functions of the program's own
twice: they must give the same for the same values. It does not simulate Kafka's
transactions, Spark's scheduling, or `.spark(…)` steps.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from riverrun.app import App
from riverrun.clock import Now, Punctuation
from riverrun.compiler.compile import compile_program
from riverrun.compiler.continued import NOTED, continued
from riverrun.compiler.shape import shape
from riverrun.compiler.upgrades import require_fit
from riverrun.control import FORGET, Command, made_anew, paused_after, waited_for
from riverrun.delivery import encode
from riverrun.delivery.alerts import LateShares
from riverrun.delivery.encode import Line, lines, ordered
from riverrun.delivery.outbox import Outbox
from riverrun.durations import Duration, microseconds, milliseconds_of
from riverrun.errors import InputError, ProgramError, caller
from riverrun.forgetting import KeyPlace, Keys
from riverrun.kafka.records import Record
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.functions import run_twice
from riverrun.kernels.kept import KeptInMemory
from riverrun.kernels.known import KnownInMemory
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import Status
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.questions import MOST_SECONDS, Question, part_of
from riverrun.kernels.revealing import keys_at
from riverrun.kernels.state import SegmentCache
from riverrun.kernels.subjects import Subject, kinds_of
from riverrun.operators.lookups.by_hand import Content, TableByHand
from riverrun.outputs import OutputSpec
from riverrun.partitions import Range, as_texts, counts, real
from riverrun.questions.answer import Answer, Parts, answer
from riverrun.questions.split import split
from riverrun.schema import Schema
from riverrun.sources.admission import Ends
from riverrun.sources.closing import Closing
from riverrun.sources.files import MemoryTopics, as_bytes, under_each_name
from riverrun.sources.histories import Histories
from riverrun.sources.reading import read_ranges
from riverrun.testing.by_hand import reading, stands_for
from riverrun.testing.checkpoints import Checkpoint, MemoryStore, Place, Planned
from riverrun.testing.drawn import Lines, drawn_rows, parse, records

CACHE = 1 << 28
PATIENCE = 60.0
"""Seconds for the answer to a question."""


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
        self.program = app.program().with_keys(KeyPlace(uuid4().hex))
        if self.program.spark_steps:
            raise ProgramError(
                "the driver cannot run .spark(…) steps",
                hint="test the function with Spark, or run `riverrun try --engine spark`",
            )
        self.shape = shape(self.program)
        """What the next version is compared with."""
        self.topics = MemoryTopics()
        self.kept = KeptInMemory()
        """What was looked up: a batch that is run again finds the same."""
        self.by_hand: dict[str, Content] = {}
        self.timed = False
        """Whether rows of streams are shown with their event time."""
        self.wall = now is not None
        self.started_at = milliseconds_of(now, caller()) * 1000 if now else 0
        self._start_over()

    def _start_over(self) -> None:
        self.checkpoint = Checkpoint()
        self.known: dict[int, KnownInMemory] = defaultdict(KnownInMemory)
        """What is known of time, by level; what is left by a batch that dies is replaced."""
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
        kernel = partial(PageKernel, self.program, scope="driver", kept=self.kept)
        self.kernels = [
            kernel(level, SegmentCache(CACHE), known=self.known[level])
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
        names = [each.topic for each in self.program.sources if stands_for(each.topic, topic)]
        topic = real(names[0]) if names else topic
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
        self.program = reading(self.program, TableByHand(table, self.by_hand[table]))
        self._start_worker()

    def control(self, kind: str, target: str, **body: Any) -> None:
        """Adds a command to the control log: it takes effect with the next batch."""
        self.topics.asked.append(Command(len(self.topics.asked), kind, target, body))

    @property
    def keys(self) -> Keys:
        """Those of personal values: `driver.keys.reveal(row)`."""
        return keys_at(self.program.keys)

    def forget(self, subject: str) -> None:
        """Asks to forget a subject, such as "customer/42": after the next batch its key is gone."""
        who = Subject.of(subject, kinds_of(self.program.sources))
        self.control(FORGET, self.keys.subject(*who).hex())

    def ask(self, step: str, sql: str) -> Answer:
        """Runs a batch, and asks for the rows of a step's table as they stand after it, as
        `riverrun ask` does of a job."""
        tables = self.program.tables
        if step not in tables:
            known = ", ".join(tables) or "none"
            raise InputError(f"no step {step!r} can be asked", hint=f"those that can: {known}")
        plan, asked = split(sql, step, tables[step]), Parts(uuid4().hex)
        command = Question(asked.question, step, plan.page, seconds=MOST_SECONDS).command(None)
        self.control(command.kind, command.target, **command.body)
        self.batch()
        for each in self.topics.replied:
            asked.add(part_of(each))
        whole = asked.whole()
        assert whole is not None, asked.pages
        return answer(plan, whole, seconds=PATIENCE)

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
                name = real(self._source(topic).topic)
                for record in batches[number] if number < len(batches) else ():
                    self.topics.append(name, record)
            found += self.batch()
        return found

    def _source(self, topic: str) -> ReadTopic:
        known = [real(each.topic) for each in self.program.sources]
        found = [each for each in self.program.sources if stands_for(each.topic, topic)]
        if not found:
            raise InputError(
                f"the program does not read {topic!r}", hint=f"it reads: {', '.join(known)}"
            )
        # a table tells what the key is; its records have what any reading wants
        first = next((each for each in found if each.table_key), found[0])
        columns = {c.name: c for each in (*found, first) for c in each.fields.columns}
        return replace(first, fields=Schema(tuple(columns.values())))

    def batch(self, *, ended: bool = False) -> Lines:
        """Reads all that was sent, and returns what comes out."""
        return self.batch_up_to(self.topics.ends(), ended=ended)

    def batch_up_to(self, ends: Ends, *, ended: bool = False) -> Lines:
        """Reads up to these offsets, with all of the control log."""
        return self._commit(self._plan(ends, ended=ended))

    def _plan(
        self, ends: Ends, *, ended: bool = False, closing: dict[str, int] | None = None
    ) -> Planned:
        named = under_each_name(ends, self.program.topics)
        return Planned(self.tick, named, ended, len(self.topics.asked), closing)

    def _commit(self, planned: Planned) -> Lines:
        found, checkpoint, status = self._run(planned)
        for topic, record in self.written:
            self.topics.append(topic, record)
        self.history.append(planned)
        self.topics.answer(self.program.name, [Command(**each) for each in status.answers])
        self.program.forget(
            self.topics.commands(self.program.name, self.checkpoint.control, planned.control)
        )
        self.checkpoint = checkpoint
        self.last = status
        self.status.add(status)
        self.status.state = status.state  # what is kept now is no sum over batches
        self.late_shares.add(self.program.late_alerts, status)
        for line in found:
            self.outputs[line["output"]].append(line)
        return Lines(found)

    def crash(self) -> None:
        """Runs the next batch and dies before it is committed: nothing of it remains."""
        self._run(self._plan(self.topics.ends()))
        self.restart()

    def restart(self, app: App | None = None) -> None:
        """Starts anew from the checkpoint: caches are gone, and what may be late is not known.

        With another version of the program it goes on with that, as `riverrun run` would.
        """
        if app is not None:
            self._go_on_with(app)
        self._start_worker()
        self.checkpoint = copy.deepcopy(self.checkpoint)
        self.checkpoint.clocks = None

    def _go_on_with(self, app: App) -> None:
        now = shape(app.program())
        require_fit(self.shape, now, caller(), app.name)
        how = continued(self.shape, now)
        program = compile_program(app.plan(), how).with_keys(self.program.keys)
        self.program, self.shape = program, {**now, NOTED: vars(how)}
        self.outputs = {each.name: self.outputs.get(each.name, []) for each in self.program.outputs}

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
        commands = waited_for(commands, self.tick)
        paused = paused_after(start.paused, commands, self.program.topics)
        histories = Histories.after(start.histories, self.program.histories, made_anew(commands))
        held = {p: end for p, end in ends.items() if p.topic in histories.held(paused)}
        behind = [p for p, end in held.items() if end > start.read.get(p, 0)]
        read = {p: start.read.get(p, 0) for p in ends}
        begin = histories.begin(read, lambda each: dict.fromkeys(each, 0))
        ends = histories.ends(begin, ends, {})
        ends = {p: end for p, end in ends.items() if p not in held}
        punctuation = Punctuation(
            tick=self.tick, ended=planned.ended, clocks=start.clocks, control=control,
            paused=paused, commands=commands, behind=self.program.with_keepers(behind),
            batch=len(self.history), partitions=counts(self.topics.ends()),
            closing=planned.closing,
            point={"batch": len(self.history), "ends": as_texts({**start.read, **ends})},
        )  # fmt: skip
        outbox = Outbox(self.program, self.reader.evaluator, self.topics.originals)
        chunks = self._read(begin, ends, punctuation)
        checkpoint = Checkpoint(
            {**start.read, **ends}, control=control, paused=paused, histories=histories.versions
        )
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
        self.topics.reply(self.program.name, outbox.answers)
        made = list(outbox.outputs())
        self.written = list(self._read_again(made))
        found = [
            line for output, rows in made for line in lines(output, rows, self.reader.evaluator)
        ]
        return ordered(found, timed=self.timed), checkpoint, outbox.status

    def _read_again(self, made: list[tuple[OutputSpec, pa.Table]]) -> Iterator[tuple[str, Record]]:
        """What the program writes to topics that it reads itself."""
        own = self.program.own_topics
        for output, rows in made:
            if (topic := output.sink.kafka_topic()) in own:
                for each in encode.records(output, rows, self.reader.evaluator).to_pylist():
                    value, key, at = each["value"], each["key"], each["timestamp"]
                    yield topic, Record(as_bytes(value), as_bytes(key), at or 0, 0, {})

    def _read(self, begin: Ends, ends: Ends, punctuation: Punctuation) -> list[Chunk]:
        ranges = [
            Range(each, begin.get(each, 0), end)
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
