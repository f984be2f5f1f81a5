"""What a plan is compiled to: plain data, run by the test driver and on Spark alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from riverrun.clock import Pace
from riverrun.columns import RowForm
from riverrun.control import FORGET, Command
from riverrun.edges import Edge
from riverrun.errors import Location
from riverrun.forgetting import KeyPlace
from riverrun.forgetting.declared import Personal
from riverrun.formats import JSON, Format
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import Operator
from riverrun.kernels.revealing import with_place
from riverrun.outputs import Delivery, OutputSpec
from riverrun.partitions import Partition
from riverrun.schema import Schema
from riverrun.times import EventTime, ExpressionTime

CLOSED = "$closed::BIGINT"
"""Stands in a query for the last slot that is closed."""


@dataclass(frozen=True)
class Branch:
    """A query over the relation `rows` of an edge, and the edge that its result goes to."""

    origin: Edge
    form: RowForm
    """Of the rows that it takes."""
    query: str | None
    """None passes rows on as they are."""
    target: Edge
    line: str
    """The user's, for dead letters."""
    combined: str | None = None
    """The query of a step's input when no row can be late."""
    patience: int = 0
    """Microseconds that rows may be behind the clock without being late."""
    on_error: OnError = "set aside"
    """What happens to rows that the query fails on."""

    def when_closed(self, slot: int) -> tuple[str, dict[str, int]]:
        """The query, and the values of its parameters."""
        assert self.query is not None
        return self.query, {"closed": slot} if CLOSED in self.query else {}


@dataclass(frozen=True)
class ReadTopic:
    """A topic, read as a stream."""

    topic: str
    fields: Schema
    """What the records hold."""
    schema: Schema
    key: str | None
    time: EventTime
    pace: Pace
    start: str
    on_loss: Literal["stop", "skip"]
    at: Location
    producer: str | None = None
    punctuation: str | None = None
    max_ahead: int | None = None
    on_error: OnError = "set aside"
    table_key: tuple[str, ...] = ()
    """Of a changelog: a record replaces the one before with its key, one without a value deletes
    it."""
    own: bool = False
    """Whether the program writes the topic itself, to read it again."""
    shared: bool = False
    """Whether the program may write the topic beside others."""
    format: Format = JSON
    history: str = ""
    """Of a topic that is read once, up to the end it had: the version of what is made of it. It is
    read again from its beginning when that is another one."""
    captured: str | None = None
    """The table of a database whose changes it holds, in words."""
    files: str | None = None
    """The pattern of the files that are read in place of a topic."""
    personal: tuple[Personal, ...] = ()
    """Columns that are sealed when they are read."""
    index: int = 0
    """Its number in positions: the compiler counts the program's topics."""
    metadata: frozenset[str] = frozenset()
    """What is used of what Kafka knows of a record: the compiler looks."""

    @property
    def edge(self) -> Edge:
        return Edge("source", self.topic)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns and expressions that reading itself uses."""
        worked_out = self.time.expression if isinstance(self.time, ExpressionTime) else ""
        return (*self.time.columns, worked_out, self.producer or "", self.punctuation or "")


@dataclass(frozen=True)
class Timing:
    """Another event time of a topic's rows, which has a clock of its own."""

    topic: str
    keeper: str
    """The name under which it is kept, in place of a topic's."""
    query: str
    """`__at` and `__pos` of the rows that have it."""


@dataclass(frozen=True)
class PlacedStep:
    """A step, and where it stands in the program."""

    does: Operator
    level: int
    """How many exchanges rows have passed before."""
    paces: Mapping[str, Pace]
    """What moves its clock: topics, and how long to wait for each."""
    awaited: Mapping[str, Pace]
    """The same of the input that rows wait for, if there is one."""
    was: str | None = None
    """The name that its state was kept under before."""

    @property
    def name(self) -> str:
        return self.does.name

    @cached_property
    def input_edges(self) -> tuple[Edge, ...]:
        return tuple(map(self.does.input_edge, range(len(self.does.inputs))))


@dataclass(frozen=True)
class SparkSpec:
    """A step handed to the user as a DataFrame."""

    name: str
    schema: Schema
    """The columns that go in."""

    @property
    def input(self) -> Edge:
        return Edge("spark", self.name)

    @property
    def output(self) -> Edge:
        return Edge("from spark", self.name)


@dataclass
class Loading:
    """Tables that are joined as they stand are loaded before the rows that meet them."""

    first: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For a topic, those that are loaded before it is read."""
    not_first: dict[tuple[str, str], str] = field(default_factory=dict)
    """For a topic and one that it does not wait for, why not."""


@dataclass(frozen=True)
class Program:
    name: str
    pages: int
    sources: tuple[ReadTopic, ...]
    branches: tuple[Branch, ...]
    steps: tuple[PlacedStep, ...]
    outputs: tuple[OutputSpec, ...]
    spark_steps: tuple[SparkSpec, ...]
    delivery: Delivery
    """What Kafka topics are promised."""
    functions: tuple[Function, ...] = ()
    """Those of one's own that queries call."""
    loading: Loading = field(default_factory=Loading)
    timings: tuple[Timing, ...] = ()
    keys: KeyPlace = field(default_factory=KeyPlace)
    """Where the keys of personal values are."""

    @property
    def personal(self) -> tuple[ReadTopic, ...]:
        """Topics of which something is sealed when it is read."""
        return tuple(source for source in self.sources if source.personal)

    def with_keys(self, place: KeyPlace) -> Program:
        return replace(self, keys=place, functions=with_place(self.functions, place))

    def forget(self, commands: Iterable[Command]) -> None:
        """What commands of committed batches ask: no batch that is run again needs the keys."""
        for each in commands:
            if each.kind == FORGET:
                self.keys.store().destroy(bytes.fromhex(each.target))

    def with_keepers(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Partitions, and what keeps other times of the same records."""
        given = list(partitions)
        others = [
            Partition(each.keeper, partition.number)
            for each in self.timings
            for partition in given
            if partition.topic == each.topic
        ]
        return sorted({*given, *others})

    @property
    def paces(self) -> dict[str, Pace]:
        return {source.topic: source.pace for source in self.sources}

    @property
    def one_writer(self) -> bool:
        """Whether one task writes all that comes of a batch."""
        return any(step.does.one_writer for step in self.steps)

    @cached_property
    def followed(self) -> bool:
        """Whether readers of an output ask which records it holds."""
        return any(output.sink.followed() for output in self.outputs)

    @property
    def tables(self) -> dict[str, Schema]:
        """The steps whose rows can be asked for, and their columns."""
        asked = (step for step in self.steps if step.does.standing is not None)
        return {step.name: step.does.table.visible.with_plain_times for step in asked}

    @property
    def late_alerts(self) -> dict[str, float]:
        """The share of late rows beyond which there is an alert, by step."""
        limits = {s.name: each.late_alert for s in self.steps for each in s.does.inputs}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def topics(self) -> tuple[str, ...]:
        """What is read, by the index that positions hold."""
        return tuple(source.topic for source in self.sources)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """What is read and written."""
        written = {output.sink.kafka_topic() for output in self.outputs}
        return tuple(topic for topic in self.topics if topic in written)

    @property
    def histories(self) -> dict[str, str]:
        """Topics that are read once, and the version of what is made of them."""
        return {source.topic: source.history for source in self.sources if source.history}

    def source(self, topic: str) -> ReadTopic:
        return next(source for source in self.sources if source.topic == topic)

    @property
    def levels(self) -> int:
        """How many exchanges there are."""
        return max((step.level + 1 for step in self.steps), default=0)

    @cached_property
    def steps_at(self) -> dict[Edge, tuple[PlacedStep, int]]:
        """The step that an edge leads into, and the number of its input."""
        return {
            edge: (step, number)
            for step in self.steps
            for number, edge in enumerate(step.input_edges)
        }

    def output_at(self, edge: Edge) -> OutputSpec:
        return next(output for output in self.outputs if output.edge == edge)

    def branches_of(self, edge: Edge) -> tuple[Branch, ...]:
        return self._by_origin.get(edge, ())

    def staying(self, edge: Edge) -> tuple[Branch, ...]:
        """Ways of rows that go on in the page that they are in: no exchange is between."""
        return tuple(branch for branch in self.branches_of(edge) if self._stays(branch))

    def leaving(self, edge: Edge) -> tuple[Branch, ...]:
        """The others: through an exchange, or out."""
        return tuple(branch for branch in self.branches_of(edge) if not self._stays(branch))

    def _stays(self, branch: Branch) -> bool:
        if branch.origin.name not in self._levels or branch.origin.kind == "source":
            return False
        if branch.target not in self.steps_at:
            return False
        return self._levels[branch.origin.name] == self.steps_at[branch.target][0].level

    @cached_property
    def _levels(self) -> dict[str, int]:
        return {step.name: step.level for step in self.steps}

    @cached_property
    def _by_origin(self) -> dict[Edge, tuple[Branch, ...]]:
        edges = dict.fromkeys(branch.origin for branch in self.branches)
        return {edge: tuple(b for b in self.branches if b.origin == edge) for edge in edges}
