"""Streams (facts) and tables (the latest row per key, as changes). One method, one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, Unpack, overload

from riverrun.alerted import Alerted
from riverrun.arguments import checked
from riverrun.clock import Pace
from riverrun.durations import UNITS, Duration, microseconds
from riverrun.errors import ProgramError, caller
from riverrun.grouped import Grouped, Named, grouped
from riverrun.kernels.letters import OnError
from riverrun.operators.deduplicate import deduplicate
from riverrun.operators.gather import changes_as_facts
from riverrun.operators.joins.building import join
from riverrun.operators.joins.join import Asked, AsOf, How, On, PairTime, TableJoinArguments
from riverrun.operators.mark_seen import mark_seen
from riverrun.operators.match.building import Options, timed_out
from riverrun.operators.match.clauses import Rows, SkipMode
from riverrun.operators.match.fluent import MatchArguments, Pattern, Told, match
from riverrun.operators.process.building import process
from riverrun.operators.to_table import Ends, to_table, topic_table
from riverrun.patterned import Patterned
from riverrun.plan.building import renamed
from riverrun.plan.handed import mapping_of
from riverrun.plan.nodes import Map
from riverrun.plan.rows import key_of
from riverrun.processed import Processed
from riverrun.processor import Event, FrameProcessor, Processor
from riverrun.relation import (
    MakesStep,
    applied,
    explode_node,
    key_node,
    late_node,
    node_of,
    read_again,
    spark_node,
    union_node,
)
from riverrun.schema import parse
from riverrun.timed import Timed


@dataclass(frozen=True)
@checked
class Stream(Patterned, Timed, Alerted["Stream"]):
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

    def filter(self, function: Callable[[Event], bool | None]) -> Stream:
        """Keep the rows for which the function gives True: `filter(lambda row: row.ms > 10)`."""
        return replace(self, node=self._filter(function))

    def map(self, function: Callable[[Event], Mapping[str, Any] | None], *, schema: str) -> Stream:
        """Make a row of each row, by a function that gives a dictionary of the columns in `schema`.

        A row for which it gives None is left out.
        """
        at = caller()
        columns = parse(schema, at).with_plain_times
        made = self.registry.named(mapping_of(function, self.node.schema, columns, at))
        return replace(self, node=Map(self.node, made, columns, at))

    def explode(self, column: str) -> Stream:
        """One row per element of a list column."""
        return replace(self, node=explode_node(self, column, caller()))

    def union(self, *others: Stream) -> Stream:
        """Rows of all streams; they must have the same columns."""
        nodes = tuple(node_of(other, "union", caller()) for other in (self, *others))
        return replace(self, node=union_node(nodes, caller()))

    def key_by(self, *columns: str) -> Stream:
        """Set the key that rows are written with; without a column they are written without one."""
        return replace(self, node=key_node(self, columns, caller()))

    def group_by(
        self, *columns: str, keep: Duration | None = None, name: str | None = None,
        was: str | None = None, on_error: OnError | None = None,
    ) -> Grouped[Table]:  # fmt: skip
        """Group rows by columns, for `.window(…).agg(…)` or `.agg(…)`. `name` names the step,
        which `was` called otherwise before. Groups without a window end `keep` after a row."""
        named = Named(name, was, keep)
        return grouped(self.node, columns, named, on_error, partial(Table, self.registry))

    def deduplicate(
        self, *columns: str, within: Duration, in_order: bool = False, name: str | None = None,
        was: str | None = None, on_error: OnError | None = None,
    ) -> Stream:  # fmt: skip
        """Of rows with the same values in the columns, less than `within` apart, the first: at
        once, or `in_order` of event time, when the clock has passed it."""
        node = deduplicate(
            self.node, columns, within=within, in_order=in_order, name=name, on_error=on_error,
            at=caller(),
        )  # fmt: skip
        return replace(self, node=renamed(node, was, caller()))

    def mark_seen(
        self, *columns: str, capacity: int = 1_000_000, error: float = 0.01, into: str = "seen",
        name: str | None = None, was: str | None = None, on_error: OnError | None = None,
    ) -> Stream:  # fmt: skip
        """Add a column that tells whether the values of the columns were seen before.

        A Bloom filter of fixed size remembers up to `capacity` values: one that is new is taken
        for seen with a probability of at most `error`, never the other way round.
        """
        node = mark_seen(
            self.node, columns, capacity=capacity, error=error, into=into, name=name,
            on_error=on_error, at=caller(),
        )  # fmt: skip
        return replace(self, node=renamed(node, was, caller()))

    @overload
    def match(
        self,
        pattern: str | Pattern,
        *,
        on_arrival: Literal[False] = ...,
        **asked: Unpack[MatchArguments],
    ) -> Stream: ...
    @overload
    def match(
        self, pattern: str | Pattern, *, on_arrival: Literal[True], **asked: Unpack[MatchArguments]
    ) -> Table: ...
    def match(
        self,
        pattern: str | Pattern,
        *,
        by: str | Sequence[str] | None = None,
        measures: Mapping[str, str] | None = None,
        rows: Rows | None = None,
        after: SkipMode | None = None,
        timeouts: bool = False,
        max_rows: int = 10_000,
        match_numbers: Duration | None = None,
        on_arrival: bool = False,
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream | Table:
        """Find a pattern in the rows of each key: the row-pattern clause of SQL, or `rr.pattern()`.

        `by`, `measures`, `rows` ("one" or "all") and `after` are for the latter. With `timeouts`,
        partial matches that run out of time are in `.timed_out`. A match has at most `max_rows`;
        `match_numbers` is how long MATCH_NUMBER() counts on. With `on_arrival` matches do not wait
        for the clock, and stragglers correct them: it gives a table. See docs/patterns.md.
        """
        options = Options(
            name=name, timeouts=timeouts, max_rows=max_rows, match_numbers=match_numbers,
            on_arrival=on_arrival, on_error=on_error,
        )  # fmt: skip
        told = Told(by=by, measures=measures, rows=rows, after=after)
        node = renamed(match(self.node, pattern, told, options, caller()), was, caller())
        return Table(self.registry, node) if on_arrival else Stream(self.registry, node)

    def process(
        self,
        processor: Processor | FrameProcessor | type[Processor | FrameProcessor],
        *,
        by: str | Sequence[str],
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> Processed[Stream]:
        """Hand rows to a class of your own, with state and timers per key."""
        node = process(self.node, processor, by, name=name, on_error=on_error, at=caller())
        return Processed(renamed(node, was, caller()), partial(Stream, self.registry))

    def apply(self, operator: MakesStep) -> Stream:
        """Add a step with state of one's own that gives a stream: see docs/extend.md."""
        return Stream(self.registry, applied(self.node, operator, "facts", caller()))

    def apply_to_table(self, operator: MakesStep) -> Table:
        """The same for one that gives a table."""
        return Table(self.registry, applied(self.node, operator, "changes", caller()))

    @overload
    def join(
        self, other: Stream, *, on: On, how: How = ..., within: Duration | None = ...,
        before: Duration | None = ..., after: Duration | None = ..., where: str | None = ...,
        time: PairTime = ..., spread: int = ..., prefix: str | None = ..., name: str | None = ...,
        was: str | None = ..., on_error: OnError | None = ...,
    ) -> Stream: ...  # fmt: skip
    @overload
    def join(
        self,
        other: Table,
        *,
        as_of: AsOf | None = ...,
        corrections: Literal[False] = ...,
        **asked: Unpack[TableJoinArguments],
    ) -> Stream: ...
    @overload
    def join(
        self,
        other: Table,
        *,
        as_of: Literal["event time"],
        corrections: Literal[True],
        **asked: Unpack[TableJoinArguments],
    ) -> Table: ...
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
        spread: int = 1,
        as_of: AsOf | None = None,
        history: Duration | None = None,
        corrections: bool = False,
        prefix: str | None = None,
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> Stream | Table:
        """Join with another stream near in time, or with a table by its key.

        `on` is a column, a list, or `{"left": "right"}`. Two streams match where the right row is
        `within` a time of the left one, or from `before` it until `after` it, and `where`, an SQL
        condition over both, holds; a pair has the `time` of its later row, or of the left or the
        right one. With `spread=8` each key is in eight pages. A table is joined `as_of="latest"`,
        as it stands when the row is processed, or `as_of="event time"`, with the version that was
        valid at the row's own time:
        versions are kept for `history` (7 days), the column TABLE_version names them, and with
        `corrections` a late version corrects what has left before (the result is then a table).
        `prefix` is put before the right side's names. `how` is inner, left, right or full; of
        tables inner or left.
        """
        asked = Asked(
            on=on, how=how, at=caller(), prefix=prefix, name=name, on_error=on_error,
            within=within, before=before, after=after, condition=where, time=time, as_of=as_of,
            history=history, corrections=corrections, spread=spread,
        )  # fmt: skip
        node = renamed(join(self.node, node_of(other, "join", asked.at), asked), was, asked.at)
        return Table(self.registry, node) if corrections else Stream(self.registry, node)

    def to_table(
        self, *key: str, delete: str | None = None, keep: Duration | None = None,
        keep_deletes: Duration | None = None, replicate: bool = False, name: str | None = None,
        was: str | None = None, on_error: OnError | None = None,
    ) -> Table:  # fmt: skip
        """The latest row of each key, by event time: `to_table("user", delete="closed")`.

        Rows for which `delete`, a condition, is true delete their key. Without a key it is the
        stream's own. A row is deleted `keep` after its time; deletions are known for
        `keep_deletes`. `replicate` lets joins keep a small table whole in every page.
        """
        node = to_table(
            self.node, key, delete=delete, ends=Ends(keep, keep_deletes), replicate=replicate,
            name=name, on_error=on_error, at=caller(),
        )  # fmt: skip
        return Table(self.registry, renamed(node, was, caller()))

    def through(
        self, topic: str, *, lateness: Duration = "0 seconds", idle: Duration = "10 seconds"
    ) -> Stream:
        """Write to a topic, and go on from there, in a later batch: for others, or to replay from.

        Rows keep their event time, to the millisecond. Several tasks write them: `lateness` is how
        far out of order they may come."""
        pace = Pace(microseconds(lateness, at := caller()), microseconds(idle, at))
        return Stream(self.registry, read_again(self, topic, pace, at))

    @property
    def late(self) -> Stream:
        """The rows that came too late: of a deduplicated stream, or of the left side of a join."""
        return Stream(self.registry, late_node(self, 0, caller()))

    @property
    def late_right(self) -> Stream:
        """The rows of the right side of a join of two streams that came too late."""
        return Stream(self.registry, late_node(self, 1, caller()))

    def spark(self, function: Callable[[Any], Any], *, schema: str) -> Stream:
        """Hand rows to a function from Spark DataFrame to DataFrame; `schema` is what it returns.

        The function works row by row (no aggregates, no joins) and keeps the columns that start
        with two underscores.
        """
        return replace(self, node=spark_node(self, function, schema, caller()))


@dataclass(frozen=True)
@checked
class Table(Alerted[Stream]):
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

    def filter(self, function: Callable[[Event], bool | None]) -> Table:
        """Keep the rows for which the function gives True; one that stops being so is deleted."""
        return replace(self, node=self._filter(function))

    def map(self, *given: object, **named: object) -> NoReturn:
        """Tables have none: a function could change the key."""
        raise ProgramError(
            "rows of a table cannot be mapped: a function could change their key",
            where=caller(),
            hint="compute columns with .with_columns(…), which may call an @rr.function",
        )

    def with_columns(self, **named: str) -> Table:
        """Add or replace columns; the key stays."""
        return replace(self, node=self._with_columns(named))

    def group_by(
        self, *columns: str, keep: Duration | None = None, name: str | None = None,
        was: str | None = None, on_error: OnError | None = None,
    ) -> Grouped[Table]:  # fmt: skip
        """Group the table's rows, for `.agg(…)`: those that go, or rest for `keep`, are no part."""
        named = Named(name, was, keep)
        return grouped(self.node, columns, named, on_error, partial(Table, self.registry))

    def join(
        self,
        other: Table,
        *,
        on: On,
        how: How = "inner",
        prefix: str | None = None,
        keep: Duration | None = None,
        name: str | None = None,
        was: str | None = None,
    ) -> Table:
        """Join with another table, by any columns: `tweets.join(follows, on={"author": "whom"})`.

        Each change on either side changes the joined table accordingly. Its key is the left one's
        if each left row has at most one partner, else that of both. Rows that have not changed for
        `keep` are forgotten.
        """
        asked = Asked(on=on, how=how, at=caller(), prefix=prefix, name=name, keep=keep)
        node = join(self.node, node_of(other, "join", asked.at), asked)
        return replace(self, node=renamed(node, was, asked.at))

    def apply(self, operator: MakesStep) -> Stream:
        """Add a step with state of one's own that gives a stream: see docs/extend.md."""
        return Stream(self.registry, applied(self.node, operator, "facts", caller()))

    def apply_to_table(self, operator: MakesStep) -> Table:
        """The same for one that gives a table."""
        return Table(self.registry, applied(self.node, operator, "changes", caller()))

    def through(self, topic: str) -> Table:
        """Write to a compacted topic, and go on from there. Rows are read in a later batch."""
        at = caller()
        source = read_again(self, topic, Pace(0, UNITS["second"] * 10), at)
        return Table(self.registry, topic_table(source, replicate=False))

    def changes(self, *, name: str | None = None) -> Stream:
        """The table's changes as facts: its rows with `op`, "+" or "-", at the time of the batch.

        A row that changes gives two, the old one ("-") first.
        """
        return Stream(self.registry, changes_as_facts(self.node, name=name, at=caller()))

    @property
    def timed_out(self) -> Stream:
        """Of `.match(…, on_arrival=True, timeouts=True)`: partial matches that ran out of time."""
        return Stream(self.registry, timed_out(self.node, caller()))

    @property
    def late(self) -> Stream:
        """The rows that came after their window had closed, as they entered the step."""
        return Stream(self.registry, late_node(self, 0, caller()))
