"""What a plan is compiled to: plain data, run by the test driver and on Spark alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from riverrun.clock import Pace
from riverrun.durations import BEGINNING, END
from riverrun.formats import JSON, Format
from riverrun.processor import FrameProcessor, Processor
from riverrun.schema import Schema
from riverrun.sinks import Guarantee, Sink, Topic
from riverrun.times import EventTime
from riverrun.windowing import Window

Emit = Literal["changes", "ready", "final"]
OnError = Literal["set aside", "stop", "drop"]
"""What happens to a row that fails on its way into a source, step or output."""

Order = Literal["position", "time"]
"""Which row of a key is the latest: the last one in its partition, or the last in event time."""

How = Literal["inner", "left", "right", "full"]
JoinKind = Literal["streams", "latest", "versions", "tables"]
"""Of two streams; of a stream with a table as it stands, or as it stood then; of two tables."""

EVENT = "event"
"""The column that tells one row of a stream from all others, where a table is made of them."""

Side = Literal["left", "right"]
PairTime = Literal["later", "left", "right"]
DEAD = "out:dead"
CLOSED = "/*closed*/"
"""Stands in a query for the last window that is closed."""

ROWS = "__rows"
"""The column of a step's input that counts the rows behind a part; it does not travel."""


@dataclass(frozen=True)
class Aggregation:
    """One result column: what is computed, over which expression."""

    name: str
    kind: str
    expression: str | None
    type: str
    argument: str | None = None
    """The expression's type."""
    total: str | None = None
    """The type that sums have."""
    signed: bool = False
    """Over the rows of a table, which come and go."""
    fractions: tuple[float, ...] = ()
    k: int = 0
    weight: str | None = None
    values: tuple[str | int | float | bool, ...] = ()
    compared_to: int = 0
    """Microseconds to the earlier window that the result is compared with; 0 is none."""


def compared_names(name: str) -> tuple[str, str, str]:
    return f"{name}_earlier", f"{name}_difference", f"{name}_ratio"


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
    on_error: OnError = "set aside"
    """What happens to rows that the query fails on."""

    def when_closed(self, window: int) -> str:
        assert self.query is not None
        return self.query.replace(CLOSED, str(window))


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
    format: Format = JSON
    producer: str | None = None
    """The column that names who made a record."""
    punctuation: str | None = None
    """The condition of records that are no rows, but tell the time."""
    max_ahead: int | None = None
    """How far a record may be ahead of the wall clock and of its own timestamp."""
    table_key: tuple[str, ...] = ()
    """Of a changelog: the columns that a record's own key holds."""
    at: str = ""
    """The user's line."""
    on_error: OnError = "set aside"

    @property
    def edge(self) -> str:
        return f"source:{self.topic}"


@dataclass(frozen=True)
class Step:
    """A step with state: rows come in by key, and leave as changes of a table or as a stream."""

    name: str
    keys: tuple[str, ...]
    paces: dict[str, Pace]
    level: int
    """How many exchanges rows have passed before."""

    @property
    def input(self) -> str:
        return f"step:{self.name}"

    @property
    def changes(self) -> str:
        return f"table:{self.name}"

    @property
    def late(self) -> str:
        return f"late:{self.name}"

    @property
    def right(self) -> str | None:
        """The second input, of joins."""
        return None

    def stream(self, name: str = "") -> str:
        return f"stream:{self.name}{'/' if name else ''}{name}"

    def done(self, clock: int) -> int:
        """Rows in state with a time up to this one have nothing more to come of them."""
        return END

    def last_closed(self, clock: int) -> int:
        """Rows with a `__window` up to this one are late at the clock."""
        return BEGINNING


@dataclass(frozen=True)
class Aggregating(Step):
    """Aggregates per key and window."""

    window: Window
    updatable: int
    emit: Emit
    aggregations: tuple[Aggregation, ...]
    signed: bool = False
    """Whether rows are changes of a table, that add and take away."""
    late_alert: float | None = None

    def done(self, clock: int) -> int:
        if self.window.kind == "all":
            return END
        if self.window.kind in ("session", "sliding"):
            return clock - self.updatable - self.window.size
        return self.window.last_complete(clock - self.updatable)

    @property
    def periods(self) -> tuple[int, ...]:
        """How far back results are compared."""
        return tuple(sorted({each.compared_to for each in self.aggregations} - {0}))

    @property
    def reach_back(self) -> int:
        return max(self.periods, default=0)

    @property
    def result_names(self) -> list[str]:
        return [
            name
            for each in self.aggregations
            for name in (each.name, *(compared_names(each.name) if each.compared_to else ()))
        ]

    def last_closed(self, clock: int) -> int:
        if self.window.kind == "all":
            return BEGINNING
        return self.window.last_complete_pane(clock - self.updatable)


@dataclass(frozen=True)
class Deduplicating(Step):
    """The first row of a key within a period passes."""

    within: int

    def last_closed(self, clock: int) -> int:
        return clock - self.within


@dataclass(frozen=True)
class Marking(Step):
    """Marks rows whose key was seen before, by a Bloom filter."""

    column: str
    capacity: int
    error: float


@dataclass(frozen=True)
class Processing(Step):
    """The user's own class, given events and timers of a key."""

    processor: Processor | FrameProcessor
    """One per worker process."""
    columns: tuple[str, ...]
    """Of an event."""
    state: Schema
    defaults: tuple[Any, ...]
    """The state of a new key."""
    outputs: tuple[tuple[str, Schema], ...]
    topics: tuple[str, ...]
    """By the index that positions hold."""
    on_error: OnError = "set aside"


@dataclass(frozen=True)
class Tabling(Step):
    """The latest row of each key."""

    columns: tuple[str, ...]
    order: Order


@dataclass(frozen=True)
class Joining(Step):
    """Rows of two sides by key. Keys have names of their own, the same on both sides."""

    kind: JoinKind
    how: How
    shared: tuple[tuple[str, str], ...]
    """Columns of the result that are keys: (key, column)."""
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    schema: Schema
    """Of the result."""
    entered_left: tuple[tuple[str, str], ...] = ()
    entered_right: tuple[tuple[str, str], ...] = ()
    """Columns as they were called before: (name, column)."""
    left_identity: tuple[str, ...] = ()
    right_identity: tuple[str, ...] = ()
    """What tells rows of one key apart, in tables."""
    before: int = 0
    after: int = 0
    condition: str | None = None
    time: PairTime = "later"
    history: int = 0
    corrections: bool = False
    version: str | None = None
    replicate: bool = False
    right_paces: dict[str, Pace] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    at: str = ""
    """The user's line."""
    on_error: OnError = "set aside"

    @property
    def right(self) -> str:
        return f"{self.input}/right"

    @property
    def late_right(self) -> str:
        return f"{self.late}/right"

    def keeps(self, side: Side) -> bool:
        """Whether rows of the side that match none are part of the result."""
        return self.how in (side, "full")

    def last_closed(self, clock: int) -> int:
        """Rows up to this time are late."""
        return clock - 1 - self.history


@dataclass(frozen=True)
class Ranking(Step):
    """The first rows of each group, by a value."""

    columns: tuple[str, ...]
    identity: tuple[str, ...]
    limit: int
    descending: bool
    place: str | None


@dataclass(frozen=True)
class Settling(Step):
    """The changes of a key, folded into one."""

    columns: tuple[str, ...]
    facts: bool = False


@dataclass(frozen=True)
class OutputSpec:
    """A named result: rows of a stream, or changes of a table."""

    name: str
    sink: Sink
    schema: Schema
    key: tuple[str, ...]
    table: bool
    format: Format = JSON

    @property
    def edge(self) -> str:
        return f"out:{self.name}"


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
    delivery: Guarantee = "exactly once"
    """What Kafka topics are promised."""

    @property
    def paces(self) -> dict[str, Pace]:
        return {source.topic: source.pace for source in self.sources}

    @property
    def late_alerts(self) -> dict[str, float]:
        """The share of late rows beyond which there is an alert, by step."""
        steps = [step for step in self.steps if isinstance(step, Aggregating)]
        return {step.name: step.late_alert for step in steps if step.late_alert is not None}

    @property
    def topics(self) -> tuple[str, ...]:
        """What is read, by the index that positions hold."""
        return tuple(source.topic for source in self.sources)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """What is read and written."""
        written = {output.sink.name for output in self.outputs if isinstance(output.sink, Topic)}
        return tuple(topic for topic in self.topics if topic in written)

    def source(self, topic: str) -> SourceSpec:
        return next(source for source in self.sources if source.topic == topic)

    @property
    def levels(self) -> int:
        """How many exchanges there are."""
        return max((step.level + 1 for step in self.steps), default=0)

    def step_at(self, edge: str) -> Step | None:
        return next((step for step in self.steps if edge in (step.input, step.right)), None)

    def output_at(self, edge: str) -> OutputSpec:
        return next(output for output in self.outputs if output.edge == edge)

    def stays(self, branch: Branch) -> bool:
        """Whether rows go on in the page that they are in: no exchange is between the steps."""
        kind, _, name = branch.origin.partition(":")
        before = next((step for step in self.steps if step.name == name.partition("/")[0]), None)
        after = self.step_at(branch.target)
        between = kind in ("stream", "table", "late") and before and after
        return bool(between) and before.level == after.level  # type: ignore[union-attr]

    def branches_of(self, edge: str) -> tuple[Branch, ...]:
        return tuple(branch for branch in self.branches if branch.origin == edge)
