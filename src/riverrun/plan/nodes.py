"""The nodes of a plan: frozen data, valid when built. The language makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from riverrun.errors import Location
from riverrun.event_time import Pace
from riverrun.processor import FrameProcessor, Processor
from riverrun.program import Aggregation, Emit, OnError
from riverrun.schema import Schema
from riverrun.sinks import Sink
from riverrun.times import EventTime
from riverrun.windowing import Window


@dataclass(frozen=True)
class Source:
    """A topic of JSON records, read as a stream."""

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
            return ("event",)
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


StepNode = Aggregate | Deduplicate | MarkSeen | Process


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

    input: Aggregate | Deduplicate
    schema: Schema
    at: Location


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


def inputs_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Source):
        return ()
    return node.inputs if isinstance(node, Union) else (node.input,)


def has_late_rows(node: StepNode) -> bool:
    timed = isinstance(node, Aggregate) and node.window.kind != "all"
    return timed or isinstance(node, Deduplicate)


def changes(node: Node) -> bool:
    """Whether rows are changes of a table (`-` and `+`), not facts of a stream."""
    if isinstance(node, Aggregate):
        return True
    if isinstance(
        node, Source | Late | Union | SparkStep | Deduplicate | MarkSeen | Process | Emitted
    ):
        return False
    return changes(node.input)


def key_of(node: Node) -> tuple[str, ...]:
    """The columns of the key that rows of this node are written with."""
    if isinstance(node, Source):
        return (node.key,) if node.key else ()
    if isinstance(node, Aggregate):
        return node.table_key
    if isinstance(node, KeyBy):
        return node.columns
    if isinstance(node, Emitted):
        return node.input.keys if all(key in node.schema for key in node.input.keys) else ()
    origins = (node.input.input,) if isinstance(node, Late) else inputs_of(node)
    keys = {key_of(each) for each in origins}
    key = keys.pop() if len(keys) == 1 else ()
    return key if all(name in node.schema for name in key) else ()
