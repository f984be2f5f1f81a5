"""The nodes of a plan: frozen data, valid when built. The language makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riverrun.clock import Pace
from riverrun.errors import Location
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import Operator
from riverrun.kernels.program import ReadTopic
from riverrun.outputs import Delivery, Sink
from riverrun.schema import Schema


@dataclass(frozen=True)
class Where:
    input: Node
    condition: str
    schema: Schema
    at: Location
    function: Function | None = None
    """Of the user's own, if the condition is a call of it."""
    reveals: tuple[str, ...] = ()
    """Personal columns that the condition reads: the compiler looks."""


@dataclass(frozen=True)
class Select:
    """Columns computed from columns; the others are gone."""

    input: Node
    columns: tuple[tuple[str, str], ...]
    schema: Schema
    at: Location
    reveals: tuple[str, ...] = ()
    """As of a condition."""


@dataclass(frozen=True)
class WithColumns:
    """Columns added or replaced; the others stay."""

    input: Node
    columns: tuple[tuple[str, str], ...]
    schema: Schema
    at: Location
    reveals: tuple[str, ...] = ()
    """As of a condition."""


@dataclass(frozen=True)
class Map:
    """Rows made from rows by a function of the user's own."""

    input: Node
    function: Function
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
class WithTime:
    """Another event time from here on, with a clock of its own."""

    input: Node
    time: str
    """An expression."""
    pace: Pace
    name: str
    schema: Schema
    at: Location

    def keeper(self, topic: str) -> str:
        """Who keeps the time of a topic's rows: no topic has such a name."""
        return f"{topic}@{self.name}"


@dataclass(frozen=True)
class SparkStep:
    """The open door: a function from DataFrame to DataFrame, row-wise."""

    input: Node
    function: Callable[[Any], Any]
    schema: Schema
    at: Location
    name: str


@dataclass(frozen=True)
class Step:
    """A step with state. What it does is the operator's business."""

    inputs: tuple[Node, ...]
    does: Operator
    was: str | None = None
    """The name that it had before."""

    @property
    def name(self) -> str:
        return self.does.name

    @property
    def schema(self) -> Schema:
        return self.does.schema

    @property
    def at(self) -> Location:
        return self.does.at

    @property
    def on_error(self) -> OnError:
        return self.does.on_error


@dataclass(frozen=True)
class Emitted:
    """The rows of one of several outputs of a step."""

    input: Step
    output: str
    schema: Schema
    at: Location

    @property
    def name(self) -> str:
        return f"{self.input.name}.{self.output}"


@dataclass(frozen=True)
class Late:
    """The rows that came too late for a step, as they entered it."""

    input: Step
    number: int
    """Of the input that they came by."""
    at: Location

    @property
    def schema(self) -> Schema:
        return self.input.inputs[self.number].schema.visible


@dataclass(frozen=True)
class Versions:
    """What a table is told, row by row, in place of the step that would keep the latest ones."""

    input: Node
    table: Operator
    at: Location

    @property
    def schema(self) -> Schema:
        return self.table.schema


Stateless = Where | Select | WithColumns | Map | Explode | KeyBy | WithTime | SparkStep | Versions
Node = ReadTopic | Stateless | Union | Step | Emitted | Late


@dataclass(frozen=True)
class Output:
    """A stream or table that leaves the program, under a name of its own."""

    input: Node
    sink: Sink
    at: Location
    label: str | None = None
    on_error: OnError = "set aside"
    added: bool = False
    """Whether riverrun adds it by default."""

    @property
    def name(self) -> str:
        return self.label or self.sink.name


@dataclass(frozen=True)
class Plan:
    """A program as its nodes, before and after each pass."""

    name: str
    pages: int
    outputs: tuple[Output, ...]
    """Without dead letters, which come from everywhere."""
    delivery: Delivery
    """What Kafka topics are promised."""
