"""What streams and tables share: rows that can be filtered, computed and written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from riverrun.arguments import checked, shown
from riverrun.clock import Pace
from riverrun.columns import RowForm
from riverrun.durations import Duration
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels import sql
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.program import ReadTopic
from riverrun.operators.joins.join import On
from riverrun.operators.lookups.building import Asked as LookupAsked
from riverrun.operators.lookups.building import lookup
from riverrun.operators.lookups.lookup import How as LookupHow
from riverrun.operators.lookups.lookup import WhenAway
from riverrun.operators.registry import refuse_taken_kind
from riverrun.outputs import Sink
from riverrun.plan.building import call_of, checked_condition, checked_policy, renamed
from riverrun.plan.handed import condition_of
from riverrun.plan.nodes import (
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Output,
    Select,
    SparkStep,
    Step,
    Union,
    Where,
    WithColumns,
    WithTime,
)
from riverrun.plan.rows import changes, form_of, key_of, table_of
from riverrun.processor import Event
from riverrun.schema import RESERVED, Column, Schema, parse, quoted
from riverrun.sinks.kafka.sink import Topic
from riverrun.times import ColumnTime

APPLY = "a function from rows and the user's line to a step: see docs/extend.md"


class Registry(Protocol):
    """What the language needs of an application: a place to note outputs and functions."""

    name: str

    def stream_of(self, node: Node) -> Any:
        """The rows of a node as a stream of the language."""

    def add(self, output: Output) -> None: ...

    def named(self, function: Function) -> Function:
        """The function under a name that no other has."""


def named_expressions(
    positional: tuple[str, ...], named: dict[str, str], schema: Schema
) -> list[tuple[str, str]]:
    """`("page", "ms / 1000 as seconds", slow="ms > 500")` as (name, expression) pairs."""
    pairs = []
    for text in positional:
        alias = re.fullmatch(r'(.+)\s+as\s+"?(\w+)"?\s*', text, re.IGNORECASE | re.DOTALL)
        pairs.append((alias[2], alias[1]) if alias else (text, text))
    pairs += list(named.items())
    return [(name, schema.expression(text)) for name, text in pairs]


def checked_columns(
    pairs: list[tuple[str, str]], schema: Schema, at: Location
) -> tuple[Column, ...]:
    names = [name for name, _ in pairs]
    for name in names:
        if not re.fullmatch(r"\w+", name) and name not in schema:
            raise ProgramError(
                "a computed column needs a name",
                where=at,
                got=name,
                hint=f'write "{name} as NAME", or NAME="{name}"',
            )
        if name.startswith(RESERVED):
            raise ProgramError(f"the column name {name!r} is reserved", where=at)
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise ProgramError(f"the column {name!r} is given twice", where=at)
    return tuple(Column(name, sql.value_type(text, schema, at)) for name, text in pairs)


@dataclass(frozen=True)
@checked
class Relation:
    """What streams and tables share: rows that can be filtered, computed and written."""

    registry: Registry
    node: Node

    @property
    def columns(self) -> tuple[str, ...]:
        return self.node.schema.visible.names

    def _where(self, condition: str) -> Where:
        at, schema = caller(), self.node.schema
        return Where(self.node, checked_condition(condition, schema, at), schema, at)

    def _filter(self, call: Callable[[Event], bool | None]) -> Where:
        at, schema = caller(), self.node.schema
        function = self.registry.named(condition_of(call, schema, at))
        return Where(self.node, call_of(function, schema), schema, at, function)

    def _select(self, positional: tuple[str, ...], named: dict[str, str]) -> Select:
        at, schema = caller(), self.node.schema
        pairs = named_expressions(positional, named, schema)
        if not pairs:
            raise ProgramError("select needs at least one column", where=at)
        node = Select(self.node, tuple(pairs), Schema(checked_columns(pairs, schema, at)), at)
        self._keep_table_key(node, dict(pairs))
        return node

    def _with_columns(self, named: dict[str, str]) -> WithColumns:
        at, schema = caller(), self.node.schema
        pairs = named_expressions((), named, schema)
        if not pairs:
            raise ProgramError("with_columns needs at least one column", where=at)
        new = checked_columns(pairs, schema, at)
        for name in named:
            if (known := schema.taken(name)) not in (None, name):
                raise ProgramError(
                    f"the column {name!r} is there as {known!r}",
                    where=at,
                    hint="capital letters do not tell columns apart; to replace it, write its name "
                    "as it is",
                )
        kept = tuple(column for column in schema.columns if column.name not in named)
        node = WithColumns(self.node, tuple(pairs), Schema((*kept, *new)), at)
        self._keep_table_key(node, {n: quoted(n) for n in schema.names} | dict(pairs))
        return node

    def _keep_table_key(self, node: Select | WithColumns, computed: dict[str, str]) -> None:
        if not changes(self.node):
            return
        for name in key_of(self.node):
            if quoted(name) not in computed.values() or _computed_anew(name, computed):
                raise ProgramError(
                    f"a table keeps its key columns, {name!r} is one",
                    where=node.at,
                    hint=f"key: {', '.join(key_of(self.node))}; it can be renamed: "
                    f".select({f'{name} as …'!r}, …)",
                )

    def lookup(
        self,
        database: str,
        *,
        on: On,
        table: str | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        schema: str | None = None,
        how: LookupHow = "left",
        cache: Duration | None = "5 minutes",
        entries: int = 100_000,
        away: WhenAway = "wait",
        patience: Duration | None = None,
        prefix: str = "",
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """Add columns of a table that is in a database, `"postgresql://…"` or `"sqlite:///file"`,
        or of a file or a folder of files: CSV, JSON or Parquet.

        `on` is a column, a list, or `{"column of the stream": "column of the table"}`; `columns`
        are all others of the table, a list, or `{"column of the table": "its name here"}`. Their
        types are the database's, or those in `schema`. What was found holds for `cache` (None: for
        the batch), for at most so many `entries`; rows that match none get nulls, or, if `how` is
        "inner", go. While the database is `away` the job waits for `patience`, or sets rows aside
        or gives them nulls after it. `prefix` is put before the new names.
        """
        asked = LookupAsked(
            table=table, on=on, columns=columns, schema=schema, how=how, cache=cache,
            entries=entries, away=away, patience=patience, prefix=prefix, name=name,
            on_error=on_error, at=caller(),
        )  # fmt: skip
        node = lookup(self.node, database, asked)
        return replace(self, node=renamed(node, was, asked.at))

    def to(self, *sinks: str | Sink, on_error: OnError | None = None) -> None:
        """Write to Kafka topics (by name) or other sinks. All outputs leave together.

        `on_error` tells what happens to rows that an expression fails on, on their way here.
        """
        at = caller()
        if not sinks:
            raise ProgramError("to() needs a topic or a sink", where=at)
        policy = checked_policy(on_error, self.node, at)
        for sink in sinks:
            target = checked_sink(sink, at).named_after(_origin(self.node))
            self.registry.add(Output(self.node, target, at, on_error=policy))


def checked_sink(given: object, at: Location) -> Sink:
    """A text is the name of a topic."""
    if isinstance(given, str):
        return Topic(given)
    if not isinstance(given, Sink):
        made, got = callable(given), getattr(given, "__name__", repr(given))
        raise ProgramError(
            "rows are written to a topic or a sink",
            where=at,
            got=got,
            hint=f"call it: {got}(…)" if made else "e.g. a topic's name, or rr.sinks.screen()",
        )
    named = all(isinstance(getattr(given, each, None), str) for each in ("name", "text"))
    if not named or not _frozen(given):
        raise ProgramError(
            "a sink is a frozen dataclass with a name and a text",
            where=at,
            got=type(given).__name__,
            hint="write @dataclass(frozen=True) above its class" if named else "see docs/extend.md",
        )
    return given


def _frozen(sink: Sink) -> bool:
    """Sinks are compared and noted in checkpoints by what they hold."""
    made = getattr(type(sink), "__dataclass_params__", None)
    return made is not None and made.frozen


def _origin(node: Node) -> str:
    while isinstance(node, Where | Select | WithColumns | Map | KeyBy | Explode | WithTime | Late):
        node = node.input
    return node.topic if isinstance(node, ReadTopic) else getattr(node, "name", "union")


def explode_node(rows: Relation, column: str, at: Location) -> Explode:
    schema = rows.node.schema.visible
    schema.require(column, at)
    found = schema.type_of(column)
    if not found.endswith("[]"):
        raise ProgramError(f"explode needs a list, {column!r} is {found}", where=at)
    columns = tuple(
        replace(c, type=found.removesuffix("[]")) if c.name == column else c for c in schema.columns
    )
    return Explode(rows.node, column, Schema(columns), at)


def node_of(rows: object, what: str, at: Location) -> Node:
    """What `.union(…)` or `.join(…)` is given, which may be anything."""
    if not isinstance(rows, Relation):
        raise ProgramError(f"{what} needs a stream or a table", where=at, got=shown(rows))
    return rows.node


def union_node(nodes: tuple[Node, ...], at: Location) -> Union:
    mine = nodes[0].schema.visible
    for other in nodes[1:]:
        theirs = other.schema.visible
        if {(c.name, c.type) for c in theirs.columns} != {(c.name, c.type) for c in mine.columns}:
            raise ProgramError(
                "a union needs the same columns on both sides",
                where=at,
                got=f"{mine.ddl()} and {theirs.ddl()}",
                hint="bring them in line with select()",
            )
    return Union(nodes, mine, at)


MakesStep = Callable[[Node, Location], Step]
"""Makes a step of the rows that go in, at the user's line."""


def applied(rows: Node, make: MakesStep, form: RowForm, at: Location) -> Step:
    """A step of one's own, whose rows leave in the form that is expected."""
    if not callable(make):
        raise ProgramError("apply needs what makes a step", where=at, got=repr(make), hint=APPLY)
    try:
        step = make(rows, at)
    except TypeError as error:
        raise ProgramError(
            "what apply was given fails on rows and their line", where=at, got=error, hint=APPLY
        ) from error
    if not isinstance(step, Step):
        raise ProgramError(
            "what apply was given makes no step", where=at, got=repr(step), hint=APPLY
        )
    refuse_taken_kind(step.does)
    _check_own(step, at)
    if step.does.leaving.form != form:
        given, method = ("table", "apply_to_table") if form == "facts" else ("stream", "apply")
        raise ProgramError(
            f"{step.does.kind!r} gives a {given}", where=at, hint=f"use .{method}(…)"
        )
    return step


def _check_own(step: Step, at: Location) -> None:
    """What an operator of one's own must hold before anything runs."""
    does = step.does
    if len(does.inputs) != len(step.inputs):
        got = f"{len(does.inputs)} inputs, {len(step.inputs)} streams or tables"
        raise ProgramError(f"{does.kind!r} is fed by something else", where=at, got=got)
    for way, rows in zip(does.inputs, step.inputs, strict=True):
        if way.takes != form_of(rows) and not (way.takes == "versions" and table_of(rows)):
            raise ProgramError(
                f"{does.kind!r} takes {way.takes}",
                where=at,
                got=f"rows that travel as {form_of(rows)}",
                hint="rows of a stream are facts, those of a table changes: .to_table(…) and "
                ".changes() go between",
            )
    try:
        json.dumps(does.frozen() | does.settings())
    except TypeError as error:
        raise ProgramError(
            f"what {does.kind!r} freezes cannot be kept in a checkpoint", where=at, got=str(error)
        ) from error


def read_again(rows: Relation, topic: str, pace: Pace, at: Location) -> ReadTopic:
    """Writes rows to a topic, and reads them from there."""
    node = rows.node
    schema, key = node.schema.visible, key_of(node)
    rows.registry.add(Output(node, Topic(topic), at, on_error=checked_policy(None, node, at)))
    read = Schema(schema.with_plain_times.columns).with_metadata
    return ReadTopic(
        topic, schema, read, key[0] if len(key) == 1 else None, ColumnTime("_timestamp"), pace,
        "earliest", "stop", at, table_key=key if changes(node) else (), own=True,
    )  # fmt: skip


def _computed_anew(name: str, computed: Mapping[str, str]) -> bool:
    """Whether a key column is there with other values; that it is there elsewhere does not help."""
    return computed.get(name, quoted(name)) != quoted(name)


def key_node(rows: Relation, columns: tuple[str, ...], at: Location) -> KeyBy:
    for column in columns:
        rows.node.schema.require(column, at)
    return KeyBy(rows.node, columns, rows.node.schema, at)


def spark_node(
    rows: Relation, function: Callable[[Any], Any], schema: str, at: Location
) -> SparkStep:
    if not callable(function):
        raise ProgramError("spark() needs a function", where=at, got=shown(function))
    name = getattr(function, "__name__", "function").strip("<>")
    return SparkStep(rows.node, function, parse(schema, at), at, name)


def late_node(rows: Relation, number: int, at: Location) -> Late:
    """The rows that came too late by an input of the step that gives these."""
    node = rows.node
    if isinstance(node, Step) and number < len(node.does.inputs) and node.does.inputs[number].late:
        return Late(node, number, at)
    raise ProgramError(
        f"this {type(rows).__name__.lower()} has no late rows",
        where=at,
        hint="take .late from what .agg(…) with a window, .deduplicate(…), .match(…) or .join(…) "
        "returns",
    )
