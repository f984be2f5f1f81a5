"""What a plan is compiled to: plain data, run by the test driver and on Spark alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from riverrun.event_time import END, Pace
from riverrun.schema import Schema
from riverrun.times import EventTime

Emit = Literal["changes", "ready", "final"]

CLOCK = "/*clock*/"
"""Stands in a query where the clock that may make rows late is filled in."""

ROWS = "__rows"
"""The column of a step's input that counts the rows behind a part; it does not travel."""


@dataclass(frozen=True)
class Topic:
    """A Kafka topic as a sink."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True)
class Screen:
    """The terminal as a sink."""

    name: str = "screen"


Sink = Topic | Screen


@dataclass(frozen=True)
class Aggregation:
    """One result column: what is computed, over which expression."""

    name: str
    kind: str
    expression: str | None
    type: str


@dataclass(frozen=True)
class Branch:
    """A query over the relation `rows` of an edge, and the edge that its result goes to."""

    origin: str
    query: str | None
    """None passes rows on as they are."""
    target: str
    step: str
    """The user's line, for dead letters."""
    combined: str | None = None
    """The query of a step's input when no row can be late."""

    def at_clock(self, clock: int) -> str:
        assert self.query is not None
        return self.query.replace(CLOCK, str(clock))


@dataclass(frozen=True)
class SourceSpec:
    """A topic to read, and what becomes of its records before the first exchange."""

    topic: str
    index: int
    schema: Schema
    time: EventTime
    key: str | None
    pace: Pace
    start: str
    on_loss: Literal["stop", "skip"]
    metadata: frozenset[str]
    producer: str | None = None
    """The column that names who made a record."""
    punctuation: str | None = None
    """The condition of records that are no rows, but tell the time."""
    max_ahead: int | None = None
    """How far a record may be ahead of the wall clock and of its own timestamp."""
    at: str = ""
    """The user's line."""

    @property
    def edge(self) -> str:
        return f"source:{self.topic}"


@dataclass(frozen=True)
class Step:
    """A windowed aggregate with its state."""

    name: str
    keys: tuple[str, ...]
    size: int
    updatable: int
    emit: Emit
    aggregations: tuple[Aggregation, ...]
    paces: dict[str, Pace]
    late_schema: Schema
    late_alert: float | None = None
    """The share of late rows beyond which there is an alert."""

    @property
    def input(self) -> str:
        return f"step:{self.name}"

    @property
    def changes(self) -> str:
        return f"table:{self.name}"

    @property
    def late(self) -> str:
        return f"late:{self.name}"

    def closes_at(self, window: int) -> int:
        return window + self.size + self.updatable if self.size else END


@dataclass(frozen=True)
class OutputSpec:
    """A named result: rows of a stream, or changes of a table."""

    name: str
    sink: Sink
    schema: Schema
    key: tuple[str, ...]
    table: bool

    @property
    def edge(self) -> str:
        return f"out:{self.name}"


DEAD = "out:dead"


@dataclass(frozen=True)
class SparkSpec:
    """A step handed to the user as a DataFrame."""

    name: str
    schema: Schema
    """The columns that go in."""

    @property
    def input(self) -> str:
        return f"spark:{self.name}"

    @property
    def output(self) -> str:
        return f"from_spark:{self.name}"


@dataclass(frozen=True)
class Program:
    name: str
    pages: int
    sources: tuple[SourceSpec, ...]
    branches: tuple[Branch, ...]
    steps: tuple[Step, ...]
    outputs: tuple[OutputSpec, ...]
    spark_steps: tuple[SparkSpec, ...] = field(default=())

    @property
    def paces(self) -> dict[str, Pace]:
        return {source.topic: source.pace for source in self.sources}

    @property
    def late_alerts(self) -> dict[str, float]:
        return {step.name: step.late_alert for step in self.steps if step.late_alert is not None}

    def source(self, topic: str) -> SourceSpec:
        return next(source for source in self.sources if source.topic == topic)

    def step_at(self, edge: str) -> Step | None:
        return next((step for step in self.steps if step.input == edge), None)

    def output_at(self, edge: str) -> OutputSpec:
        return next(output for output in self.outputs if output.edge == edge)

    def branches_of(self, edge: str) -> tuple[Branch, ...]:
        return tuple(branch for branch in self.branches if branch.origin == edge)
