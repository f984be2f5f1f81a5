"""What streams and tables share: rows that can be filtered, computed and written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from riverrun.errors import Location, ProgramError, caller
from riverrun.event_time import Pace
from riverrun.kernels import sql
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.plan.building import call_of, checked_condition, checked_policy
from riverrun.plan.handed import condition_of
from riverrun.plan.nodes import (
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Output,
    Select,
    Source,
    Union,
    Where,
    WithColumns,
)
from riverrun.plan.rows import changes, key_of
from riverrun.processor import Event
from riverrun.schema import RESERVED, Column, Schema, quoted
from riverrun.sinks import Screen, Sink, Topic
from riverrun.times import ColumnTime


class Registry(Protocol):
    """What the language needs of an application: a place to note outputs and functions."""

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
    return tuple(Column(name, sql.type_of(text, schema, at)) for name, text in pairs)


@dataclass(frozen=True)
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
        kept = tuple(column for column in schema.columns if column.name not in named)
        node = WithColumns(self.node, tuple(pairs), Schema((*kept, *new)), at)
        self._keep_table_key(node, {n: quoted(n) for n in schema.names} | dict(pairs))
        return node

    def _keep_table_key(self, node: Select | WithColumns, computed: dict[str, str]) -> None:
        if not changes(self.node):
            return
        for name in key_of(self.node):
            if computed.get(name) != quoted(name):
                raise ProgramError(
                    f"a table keeps its key columns as they are, {name!r} is one",
                    where=node.at,
                    hint=f"key: {', '.join(key_of(self.node))}",
                )

    def to(self, *sinks: str | Sink, on_error: OnError | None = None) -> None:
        """Write to Kafka topics (by name) or other sinks. All outputs leave together.

        `on_error` tells what happens to rows that an expression fails on, on their way here.
        """
        at = caller()
        if not sinks:
            raise ProgramError("to() needs a topic or a sink", where=at)
        policy = checked_policy(on_error, self.node, at)
        for sink in sinks:
            target = Topic(sink) if isinstance(sink, str) else sink
            if isinstance(target, Screen) and target.name == "screen":
                target = Screen(_screen_name(self.node))
            self.registry.add(Output(self.node, target, at, on_error=policy))


def _screen_name(node: Node) -> str:
    while isinstance(node, Where | Select | WithColumns | Map | KeyBy | Explode | Late):
        node = node.input
    origin = node.topic if isinstance(node, Source) else getattr(node, "name", "union")
    return f"screen:{origin}"


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


def union_node(all_rows: tuple[Relation, ...], at: Location) -> Union:
    mine = all_rows[0].node.schema.visible
    for other in all_rows[1:]:
        theirs = other.node.schema.visible
        if {(c.name, c.type) for c in theirs.columns} != {(c.name, c.type) for c in mine.columns}:
            raise ProgramError(
                "a union needs the same columns on both sides",
                where=at,
                got=f"{mine.ddl()} and {theirs.ddl()}",
                hint="bring them in line with select()",
            )
    return Union(tuple(rows.node for rows in all_rows), mine, at)


def read_again(rows: Relation, topic: str, pace: Pace, at: Location) -> Source:
    """Writes rows to a topic, and reads them from there."""
    node = rows.node
    schema, key = node.schema.visible, key_of(node)
    rows.registry.add(Output(node, Topic(topic), at, on_error=checked_policy(None, node, at)))
    read = Schema(schema.with_plain_times.columns).with_metadata
    return Source(
        topic, schema, read, key[0] if len(key) == 1 else None, ColumnTime("_timestamp"), pace,
        "earliest", "stop", at, table_key=key if changes(node) else (), own=True,
    )  # fmt: skip
