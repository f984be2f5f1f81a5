"""Streams (facts) and tables (the latest row per key, as changes). One method, one node."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from riverrun.aggregate import Agg, aggregation, for_comparisons, refuse_clash, result_columns
from riverrun.errors import Location, ProgramError, caller
from riverrun.event_time import Duration, duration_text, microseconds
from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Emitted,
    Explode,
    KeyBy,
    Late,
    MarkSeen,
    Process,
    SparkStep,
    Union,
    has_late_rows,
    key_of,
)
from riverrun.process import process_node
from riverrun.processor import FrameProcessor, Processor
from riverrun.program import Emit, OnError
from riverrun.relation import Registry, Relation, checked_policy, origin_name, step_keys
from riverrun.schema import RESERVED, Column, Schema, parse
from riverrun.windowing import Window


@dataclass(frozen=True)
class Stream(Relation):
    """Facts, append only."""

    def where(self, condition: str) -> Stream:
        """Keep the rows for which the SQL condition is true."""
        return replace(self, node=self._where(condition))

    def select(self, *columns: str, **named: str) -> Stream:
        """Keep or compute columns: `select("page", "ms / 1000 as s", slow="ms > 500")`."""
        return replace(self, node=self._select(columns, named))

    def with_columns(self, **named: str) -> Stream:
        """Add or replace columns: `with_columns(seconds="ms / 1000")`."""
        return replace(self, node=self._with_columns(named))

    def explode(self, column: str) -> Stream:
        """One row per element of a list column."""
        at, schema = caller(), self.node.schema.visible
        schema.require(column, at)
        found = schema.type_of(column)
        if not found.endswith("[]"):
            raise ProgramError(f"explode needs a list, {column!r} is {found}", where=at)
        columns = tuple(
            replace(c, type=found.removesuffix("[]")) if c.name == column else c
            for c in schema.columns
        )
        return replace(self, node=Explode(self.node, column, Schema(columns), at))

    def union(self, *others: Stream) -> Stream:
        """Rows of all streams; they must have the same columns."""
        at, mine = caller(), self.node.schema.visible
        for other in others:
            theirs = other.node.schema.visible
            if {(c.name, c.type) for c in theirs.columns} != {
                (c.name, c.type) for c in mine.columns
            }:
                raise ProgramError(
                    "a union needs the same columns on both sides",
                    where=at,
                    got=f"{mine.ddl()} and {theirs.ddl()}",
                    hint="bring them in line with select()",
                )
        return replace(self, node=Union((self.node, *(o.node for o in others)), mine, at))

    def key_by(self, *columns: str) -> Stream:
        """Set the key that rows are written with."""
        at, schema = caller(), self.node.schema
        if not columns:
            raise ProgramError("key_by needs at least one column", where=at)
        for column in columns:
            schema.require(column, at)
        return replace(self, node=KeyBy(self.node, columns, schema, at))

    def group_by(
        self, *columns: str, name: str | None = None, on_error: OnError | None = None
    ) -> Grouped:
        """Group rows by columns, for `.window(…).agg(…)` or `.agg(…)`. `name` names the step."""
        return _grouped(self, columns, name, on_error)

    def deduplicate(
        self,
        *columns: str,
        within: Duration,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """Of rows with the same values in the columns, less than `within` apart, the first."""
        at = caller()
        keys = step_keys("deduplicate", self, columns, name, at)
        period = microseconds(within, at)
        if period <= 0:
            raise ProgramError("deduplicate needs a period above zero", where=at, got=repr(within))
        made = name or f"{origin_name(self.node)}_once_by_{'_'.join(columns)}"
        policy, schema = checked_policy(on_error, self.node, at), self.node.schema.visible
        return replace(self, node=Deduplicate(self.node, made, keys, period, schema, at, policy))

    def mark_seen(
        self,
        *columns: str,
        capacity: int = 1_000_000,
        error: float = 0.01,
        into: str = "seen",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream:
        """Add a column that tells whether the values of the columns were seen before.

        A Bloom filter of fixed size remembers up to `capacity` values: one that is new is taken
        for seen with a probability of at most `error`, never the other way round.
        """
        at, schema = caller(), self.node.schema.visible
        keys = step_keys("mark_seen", self, columns, name, at)
        if into in schema or not re.fullmatch(r"\w+", into) or into.startswith(RESERVED):
            raise ProgramError(f"the name {into!r} is taken", where=at, hint='into="…"')
        if capacity < 1 or not 0 < error < 1:
            raise ProgramError(
                "mark_seen needs a capacity above 0 and an error between 0 and 1",
                where=at,
                got=f"capacity {capacity}, error {error}",
            )
        made = name or f"{origin_name(self.node)}_seen_by_{'_'.join(columns)}"
        marked = Schema((*schema.columns, Column(into, "BOOLEAN")))
        policy = checked_policy(on_error, self.node, at)
        node = MarkSeen(self.node, made, keys, into, capacity, error, marked, at, policy)
        return replace(self, node=node)

    def process(
        self,
        processor: Processor | FrameProcessor | type[Processor | FrameProcessor],
        *,
        by: str | list[str],
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Processed:
        """Hand rows to a class of your own, with state and timers per key."""
        node = process_node(self, processor, by, name=name, on_error=on_error, at=caller())
        return Processed(self.registry, node)

    @property
    def late(self) -> Stream:
        """The rows that came too late to tell whether they are duplicates."""
        if not isinstance(self.node, Deduplicate):
            raise ProgramError(
                "only a deduplicated stream has late rows",
                where=caller(),
                hint="take .late from what .deduplicate(…) returns",
            )
        return Stream(self.registry, Late(self.node, self.node.input.schema.visible, caller()))

    def spark(self, function: Callable[[Any], Any], *, schema: str) -> Stream:
        """Hand rows to a function from Spark DataFrame to DataFrame; `schema` is what it returns.

        The function works row by row (no aggregates, no joins) and keeps the columns that start
        with two underscores.
        """
        at = caller()
        name = getattr(function, "__name__", "function").strip("<>")
        node = SparkStep(self.node, function, parse(schema, at), at, name)
        return replace(self, node=node)


@dataclass(frozen=True)
class Processed:
    """What a processor emits: a stream for each of its outputs, `processed["name"]`."""

    registry: Registry
    node: Process

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.node.outputs)

    def __getitem__(self, output: str) -> Stream:
        at, schemas = caller(), dict(self.node.outputs)
        if output not in schemas:
            raise ProgramError(
                f"there is no output {output!r}", where=at, hint=f"outputs: {', '.join(schemas)}"
            )
        return Stream(self.registry, Emitted(self.node, output, schemas[output], at))

    @property
    def stream(self) -> Stream:
        """The only output."""
        if len(self.outputs) != 1:
            names = ", ".join(self.outputs)
            raise ProgramError("there is more than one output", where=caller(), got=names)
        return self[self.outputs[0]]


@dataclass(frozen=True)
class Grouped:
    """Rows with a group key, and perhaps a window: one `.agg(…)` away from a table."""

    rows: Stream | Table
    columns: tuple[str, ...]
    name: str | None
    kind: Window
    at: Location
    on_error: OnError
    updatable: int = 0
    emit: Emit = "changes"
    late_alert: float | None = None

    def window(
        self,
        window: Window,
        *,
        updatable: Duration = "0 seconds",
        emit: Emit | None = None,
        late_alert: float | None = None,
    ) -> Grouped:
        """Aggregate per window of event time.

        emit="ready": once when the window is ready, then a correction for each straggler that
        comes within `updatable`; "changes": at every batch; "final": once, when it closes.
        `late_alert=0.01` gives an alert when more than that share of rows is late.
        """
        at = caller()
        if not isinstance(window, Window):
            raise ProgramError(
                "window() needs a window",
                where=at,
                got=repr(window),
                hint='rr.tumbling("1 minute")',
            )
        if isinstance(self.rows, Table):
            raise ProgramError(
                "rows of a table have no window",
                where=at,
                hint="group by window_start, or by a column computed from it",
            )
        if emit is None:
            emit = "changes" if window.kind == "all" else "ready"
        if emit not in ("changes", "ready", "final"):
            raise ProgramError("emit is one of changes, ready, final", where=at, got=repr(emit))
        share = late_alert if isinstance(late_alert, int | float) else -1
        if late_alert is not None and not 0 <= share < 1:
            raise ProgramError(
                "late_alert is a share from 0 to below 1", where=at, got=repr(late_alert)
            )
        period = microseconds(updatable, at)
        return replace(self, kind=window, updatable=period, emit=emit, late_alert=late_alert)

    def agg(self, **aggregates: Agg) -> Table:
        """Compute aggregates: `agg(views=rr.count(), time=rr.avg("ms"))`."""
        at, node = caller(), self.rows.node
        if not aggregates:
            raise ProgramError("agg needs at least one aggregate", where=at)
        signed, windowed = isinstance(self.rows, Table), self.kind.kind != "all"
        made = tuple(
            aggregation(n, a, node.schema, at, signed=signed, windowed=windowed)
            for n, a in aggregates.items()
        )
        window = for_comparisons(self.kind, made, at)
        columns = self._key_columns() + tuple(c for a in made for c in result_columns(a))
        refuse_clash(columns, at)
        return Table(
            self.rows.registry,
            Aggregate(
                input=node,
                name=self.name or self._derived_name(),
                keys=self.columns,
                window=window,
                updatable=self.updatable,
                emit=self.emit,
                late_alert=self.late_alert,
                aggregations=made,
                schema=Schema(columns),
                at=at,
                on_error=self.on_error,
            ),
        )

    def _key_columns(self) -> tuple[Column, ...]:
        schema = self.rows.node.schema
        bounds = (Column("window_start", "TIMESTAMP"), Column("window_end", "TIMESTAMP"))
        if self.kind.kind == "sliding":
            return (*schema.visible.columns, *bounds, Column("event", "VARCHAR"))
        keys = tuple(Column(name, schema.type_of(name)) for name in self.columns)
        return keys if self.kind.kind == "all" else (*keys, *bounds)

    def _derived_name(self) -> str:
        name = f"{origin_name(self.rows.node)}_by_{'_'.join(self.columns)}"
        period = duration_text(self.kind.size).replace(" ", "_")
        match self.kind.kind:
            case "all":
                return name
            case "tumbling":
                return f"{name}_per_{period}"
            case "hopping":
                return f"{name}_per_{period}_every_{duration_text(self.kind.hop)}".replace(" ", "_")
            case kind:
                return f"{name}_{kind}_{period}"


@dataclass(frozen=True)
class Table(Relation):
    """Rows by key. A change takes the old row back (`-`) and puts the new one there (`+`)."""

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.node)

    def where(self, condition: str) -> Table:
        """Keep the rows for which the SQL condition is true; one that stops being so is deleted."""
        return replace(self, node=self._where(condition))

    def select(self, *columns: str, **named: str) -> Table:
        """Keep or compute columns; the key stays."""
        return replace(self, node=self._select(columns, named))

    def with_columns(self, **named: str) -> Table:
        """Add or replace columns; the key stays."""
        return replace(self, node=self._with_columns(named))

    def group_by(
        self, *columns: str, name: str | None = None, on_error: OnError | None = None
    ) -> Grouped:
        """Group the table's rows, for `.agg(…)`: a row that changes or goes is taken away again."""
        return _grouped(self, columns, name, on_error)

    @property
    def late(self) -> Stream:
        """The rows that came after their window had closed, as they entered the step."""
        if not isinstance(self.node, Aggregate) or not has_late_rows(self.node):
            raise ProgramError(
                "only a windowed aggregate has late rows",
                where=caller(),
                hint="take .late from the table that .agg(…) returns",
            )
        return Stream(self.registry, Late(self.node, self.node.input.schema.visible, caller()))


def _grouped(
    rows: Stream | Table, columns: tuple[str, ...], name: str | None, on_error: OnError | None
) -> Grouped:
    at = caller()
    keys = step_keys("group_by", rows, columns, name, at)
    policy = checked_policy(on_error, rows.node, at)
    return Grouped(rows, keys, name, Window("all"), at, policy)
