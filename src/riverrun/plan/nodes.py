"""The nodes of a plan: frozen data, valid when built. The language makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from riverrun.clock import Pace
from riverrun.errors import Location
from riverrun.formats import JSON, Format
from riverrun.processor import FrameProcessor, Processor
from riverrun.program import EVENT, Aggregation, Emit, How, JoinKind, OnError, Order, PairTime, Side
from riverrun.schema import Schema
from riverrun.sinks import Sink
from riverrun.times import EventTime
from riverrun.windowing import Window


@dataclass(frozen=True)
class Source:
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
    format: Format = JSON

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns and expressions that reading itself uses."""
        return (*self.time.columns, self.producer or "", self.punctuation or "")


@dataclass(frozen=True)
class Where:
    input: Node
    condition: str
    schema: Schema
    at: Location


@dataclass(frozen=True)
class Select:
    """Columns computed from columns; the others are gone."""

    input: Node
    columns: tuple[tuple[str, str], ...]
    schema: Schema
    at: Location


@dataclass(frozen=True)
class WithColumns:
    """Columns added or replaced; the others stay."""

    input: Node
    columns: tuple[tuple[str, str], ...]
    schema: Schema
    at: Location


@dataclass(frozen=True)
class Explode:
    """One row per element of a list column."""

    input: Node
    column: str
    schema: Schema
    at: Location


@dataclass(frozen=True)
class Union:
    inputs: tuple[Node, ...]
    schema: Schema
    at: Location


@dataclass(frozen=True)
class KeyBy:
    """Sets the key that rows are written with."""

    input: Node
    columns: tuple[str, ...]
    schema: Schema
    at: Location


@dataclass(frozen=True)
class SparkStep:
    """The open door: a function from DataFrame to DataFrame, row-wise."""

    input: Node
    function: Callable[[Any], Any]
    schema: Schema
    at: Location
    name: str


@dataclass(frozen=True)
class Aggregate:
    """Rows grouped by key and window. Its output is a table; late rows leave by `Late`."""

    input: Node
    name: str
    keys: tuple[str, ...]
    window: Window
    updatable: int
    emit: Emit
    late_alert: float | None
    aggregations: tuple[Aggregation, ...]
    schema: Schema
    at: Location
    on_error: OnError = "set aside"

    @property
    def table_key(self) -> tuple[str, ...]:
        if self.window.kind == "sliding":
            return (EVENT,)
        return self.keys if self.window.kind == "all" else (*self.keys, "window_start")


@dataclass(frozen=True)
class Deduplicate:
    """Of the rows of a key within a period, the first one."""

    input: Node
    name: str
    keys: tuple[str, ...]
    within: int
    schema: Schema
    at: Location
    on_error: OnError = "set aside"


@dataclass(frozen=True)
class MarkSeen:
    """A column that tells whether the key was seen before."""

    input: Node
    name: str
    keys: tuple[str, ...]
    column: str
    capacity: int
    error: float
    schema: Schema
    at: Location
    on_error: OnError = "set aside"


@dataclass(frozen=True)
class Process:
    """Rows by key into the user's own class. What it emits leaves by `Emitted`."""

    input: Node
    name: str
    keys: tuple[str, ...]
    processor: Processor | FrameProcessor
    state: Schema
    defaults: tuple[Any, ...]
    outputs: tuple[tuple[str, Schema], ...]
    schema: Schema
    """Of the rows that enter."""
    at: Location
    on_error: OnError = "set aside"


@dataclass(frozen=True)
class ToTable:
    """The latest row per key. Its output is a table."""

    input: Node
    name: str
    keys: tuple[str, ...]
    order: Order
    delete: str | None
    """The condition of rows that delete their key."""
    replicate: bool
    """Whether joins may keep the whole table in every page."""
    schema: Schema
    at: Location
    on_error: OnError = "set aside"


@dataclass(frozen=True)
class Join:
    """Rows of two sides with the same key, and for streams, near in time."""

    left: Node
    right: Node
    name: str
    kind: JoinKind
    how: How
    on: tuple[tuple[str, str], ...]
    """Pairs of columns, left and right."""
    types: tuple[str, ...]
    """What they are compared in."""
    shared: tuple[str, ...]
    """Join columns that have one name on both sides, and are one column of the result."""
    right_names: tuple[tuple[str, str], ...]
    """The right side's other columns, and what they are called in the result."""
    schema: Schema
    at: Location
    before: int = 0
    after: int = 0
    """A right row matches from `before` a left one's time until `after` it."""
    condition: str | None = None
    time: PairTime = "later"
    history: int = 0
    """How long versions are kept after they were replaced."""
    corrections: bool = False
    version: str | None = None
    """The column that tells which version it is."""
    on_error: OnError = "set aside"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"__k{number}" for number in range(len(self.on)))


@dataclass(frozen=True)
class Rank:
    """Of the rows of each group, those with the highest or lowest values. A table of them."""

    input: Node
    name: str
    keys: tuple[str, ...]
    limit: int
    by: str
    descending: bool
    place: str | None
    """The column that tells the place of a row, if there is to be one."""
    schema: Schema
    at: Location
    on_error: OnError = "stop"


@dataclass(frozen=True)
class Settle:
    """Brings the changes of a key together, where they come from several pages."""

    input: Node
    name: str
    keys: tuple[str, ...]
    facts: bool
    """Whether the changes leave as facts of a stream."""
    schema: Schema
    at: Location
    on_error: OnError = "stop"


StepNode = Aggregate | Deduplicate | MarkSeen | Process | ToTable | Join | Rank | Settle


@dataclass(frozen=True)
class Emitted:
    """The rows of one output of a processor."""

    input: Process
    output: str
    schema: Schema
    at: Location

    @property
    def name(self) -> str:
        return f"{self.input.name}.{self.output}"


@dataclass(frozen=True)
class Late:
    """The rows that came too late for a step, as they entered it."""

    input: Aggregate | Deduplicate | Join
    schema: Schema
    at: Location
    side: Side = "left"
    """Of a join."""


Node = (
    Source
    | Where
    | Select
    | WithColumns
    | Explode
    | Union
    | KeyBy
    | SparkStep
    | Aggregate
    | Deduplicate
    | MarkSeen
    | Process
    | ToTable
    | Join
    | Rank
    | Settle
    | Emitted
    | Late
)


@dataclass(frozen=True)
class Output:
    """A stream or table that leaves the program, under a name of its own."""

    input: Node
    sink: Sink
    at: Location
    label: str | None = None
    on_error: OnError = "set aside"

    @property
    def name(self) -> str:
        return self.label or self.sink.name
