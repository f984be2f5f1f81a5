"""Streams (facts) and tables (the latest row per key, as changes). One method, one node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from riverrun.aggregate import Agg
from riverrun.clock import Pace
from riverrun.duplicates import deduplicate_node, mark_seen_node
from riverrun.durations import UNITS, Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.grouping import Grouping, aggregate_node, check_window
from riverrun.join import Asked, AsOf, On, join_node
from riverrun.plan.derive import has_late_rows, inputs_of, key_of, late_sides
from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Emitted,
    Join,
    KeyBy,
    Late,
    Process,
    Rank,
    SparkStep,
)
from riverrun.process import process_node
from riverrun.processor import FrameProcessor, Processor
from riverrun.program import Emit, How, OnError, PairTime, Side
from riverrun.relation import (
    Registry,
    Relation,
    checked_policy,
    explode_node,
    read_again,
    step_keys,
    union_node,
)
from riverrun.schema import parse
from riverrun.table import changes_node, rank_node, table_node, topic_table
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
        return replace(self, node=explode_node(self, column, caller()))

    def union(self, *others: Stream) -> Stream:
        """Rows of all streams; they must have the same columns."""
        return replace(self, node=union_node((self, *others), caller()))

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
        node = deduplicate_node(self, columns, within, (name, on_error), caller())
        return replace(self, node=node)

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
        given = (capacity, error, into)
        node = mark_seen_node(self, columns, given, (name, on_error), caller())
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

    def join(
        self,
        other: Stream | Table,
        *,
        on: On,
        how: How = "inner",
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        where: str | None = None,
        time: PairTime = "later",
        as_of: AsOf | None = None,
        history: Duration | None = None,
        corrections: bool = False,
        prefix: str | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Any:
        """Join with another stream near in time, or with a table by its key.

        `on` is a column, a list, or `{"left": "right"}`. Two streams match where the right row is
        `within` a time of the left one, or from `before` it until `after` it, and `where`, an SQL
        condition over both, holds; a pair has the `time` of its later row, or of the left or the
        right one. A table is joined `as_of="latest"`, as it stands when the row is
        processed, or `as_of="event time"`, with the version that was valid at the row's own time:
        versions are kept for `history` (7 days), the column TABLE_version names them, and with
        `corrections` a late version corrects what has left before (the result is then a table).
        `prefix` is put before the right side's names. `how` is inner, left, right or full; of
        tables inner or left.
        """
        at = caller()
        if within is not None and (before is not None or after is not None):
            raise ProgramError("within is both before and after: give one or the other", where=at)
        around = (before, after) if within is None else (within, within)
        asked = Asked(
            on, how, at, prefix, name, on_error, *around, where, time, as_of, history, corrections
        )  # fmt: skip
        node = join_node(self, other, asked)
        return Table(self.registry, node) if corrections else Stream(self.registry, node)

    def to_table(
        self,
        *key: str,
        delete: str | None = None,
        replicate: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> Table:
        """The latest row of each key, by event time: `to_table("user", delete="closed")`.

        Rows for which `delete`, a condition, is true delete their key. Without a key it is the
        stream's own. `replicate` lets joins keep a small table whole in every page.
        """
        node = table_node(self, key, delete, (replicate, name, on_error), caller())
        return Table(self.registry, node)

    def through(self, topic: str, *, idle: Duration = "10 seconds") -> Stream:
        """Write to a topic, and go on from there: for others to read, or to replay from.

        Rows keep their event time, to the millisecond. They are read in a later batch.
        """
        at = caller()
        return Stream(self.registry, read_again(self, topic, Pace(0, microseconds(idle, at)), at))

    @property
    def late(self) -> Stream:
        """The rows that came too late: of a deduplicated stream, or of the left side of a join."""
        return self._late("left")

    @property
    def late_right(self) -> Stream:
        """The rows of the right side of a join of two streams that came too late."""
        return self._late("right")

    def _late(self, side: Side) -> Stream:
        node, at = self.node, caller()
        if not isinstance(node, Deduplicate | Join) or side not in late_sides(node):
            raise ProgramError(
                "this stream has no late rows",
                where=at,
                hint="take them from what .deduplicate(…) or .join(…) returns",
            )
        entered = inputs_of(node)[0 if side == "left" else 1].schema.visible
        return Stream(self.registry, Late(node, entered, at, side))

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
        check_window(self.rows, window, late_alert, at)
        if emit is None:
            emit = "changes" if window.kind == "all" else "ready"
        if emit not in ("changes", "ready", "final"):
            raise ProgramError("emit is one of changes, ready, final", where=at, got=repr(emit))
        period = microseconds(updatable, at)
        return replace(self, kind=window, updatable=period, emit=emit, late_alert=late_alert)

    def agg(self, **aggregates: Agg) -> Table:
        """Compute aggregates: `agg(views=rr.count(), time=rr.avg("ms"))`."""
        given = Grouping(
            self.columns, self.name, self.kind, self.on_error, self.updatable, self.emit,
            self.late_alert,
        )  # fmt: skip
        return Table(self.rows.registry, aggregate_node(self.rows, given, aggregates, caller()))

    def top(self, limit: int, *, by: str, place: str | None = None) -> Table:
        """Of each group the rows with the highest values of `by`: `top(10, by="total")`.

        Of rows with the same value the one with the lower key is first. `place` names a column for
        the row's place, from 1 on.
        """
        return Table(self.rows.registry, self._ranked(limit, by, place, descending=True))

    def bottom(self, limit: int, *, by: str, place: str | None = None) -> Table:
        """Of each group the rows with the lowest values of `by`."""
        return Table(self.rows.registry, self._ranked(limit, by, place, descending=False))

    def _ranked(self, limit: int, by: str, place: str | None, *, descending: bool) -> Rank:
        if not isinstance(self.rows, Table):
            raise ProgramError(
                "only the rows of a table can be ranked",
                where=caller(),
                hint="make one of the stream: .to_table(…), or an aggregate",
            )
        given = (limit, by, place)
        return rank_node(self.rows, self.columns, self.name, given, descending=descending)


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

    def join(
        self,
        other: Table,
        *,
        on: On,
        how: How = "inner",
        prefix: str | None = None,
        name: str | None = None,
    ) -> Table:
        """Join with another table, by any columns: `tweets.join(follows, on={"author": "whom"})`.

        Each change on either side changes the joined table accordingly. Its key is the left one's
        if each left row has at most one partner, else that of both.
        """
        asked = Asked(on, how, caller(), prefix, name)
        return replace(self, node=join_node(self, other, asked))

    def through(self, topic: str) -> Table:
        """Write to a compacted topic, and go on from there. Rows are read in a later batch."""
        at = caller()
        source = read_again(self, topic, Pace(0, UNITS["second"] * 10), at)
        return Table(self.registry, topic_table(source, replicate=False))

    def changes(self, *, name: str | None = None) -> Stream:
        """The table's changes as facts: its rows with `op`, "+" or "-", at the time of the batch.

        A row that changes gives two, the old one ("-") first.
        """
        return Stream(self.registry, changes_node(self, name, caller()))

    @property
    def late(self) -> Stream:
        """The rows that came after their window had closed, as they entered the step."""
        if not isinstance(self.node, Aggregate | Join) or not has_late_rows(self.node):
            raise ProgramError(
                "only a windowed aggregate has late rows",
                where=caller(),
                hint="take .late from the table that .agg(…) returns",
            )
        entered = inputs_of(self.node)[0].schema.visible
        return Stream(self.registry, Late(self.node, entered, caller()))


def _grouped(
    rows: Stream | Table, columns: tuple[str, ...], name: str | None, on_error: OnError | None
) -> Grouped:
    at = caller()
    keys = step_keys("group_by", rows, columns, name, at)
    policy = checked_policy(on_error, rows.node, at)
    return Grouped(rows, keys, name, Window("all"), at, policy)
