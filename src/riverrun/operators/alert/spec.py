"""Steps that alert people: what the program says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from riverrun.durations import duration_text
from riverrun.edges import Edge
from riverrun.kernels.operator import Entry, Input, Leaving, PlainOperator, Words
from riverrun.kernels.uses import Use
from riverrun.operators.alert.group import Times
from riverrun.operators.alert.templates import Template
from riverrun.schema import Column, Schema, plain

TOLD = "told"
"""The output of notifications."""
OVER = "__over"
"""Whether a row says that the cause is gone."""

NOTIFIED = (
    Column("alert", "VARCHAR"),
    Column("key", "VARCHAR"),
    Column("kind", "VARCHAR"),
    Column("level", "BIGINT"),
    Column("n", "BIGINT"),
    Column("since", "TIMESTAMP"),
    Column("at", "TIMESTAMP"),
    Column("title", "VARCHAR"),
    Column("text", "VARCHAR"),
    Column("by", "VARCHAR"),
    Column("comment", "VARCHAR"),
    Column("row", "VARCHAR"),
)
"""What a notification has beside the columns of its group."""

STANDING = (
    Column("alert", "VARCHAR"),
    Column("state", "VARCHAR"),
    Column("n", "BIGINT"),
    Column("since", "TIMESTAMP"),
    Column("level", "BIGINT"),
    Column("by", "VARCHAR"),
    Column("comment", "VARCHAR"),
    Column("kind", "VARCHAR"),
    Column("told", "TIMESTAMP"),
    Column("told_n", "BIGINT"),
    Column("title", "VARCHAR"),
    Column("text", "VARCHAR"),
)
"""What is known of a group that stands."""


@dataclass(frozen=True, kw_only=True)
class AlertSpec(PlainOperator):
    """What a step is told; its kernel is beside this file."""

    application: str
    entering: Schema
    """Of the rows."""
    table_key: tuple[str, ...]
    """Of the table whose rows these are; none of a stream."""
    times: Times
    resolve: str | None
    """The condition of rows that say that the cause is gone."""
    title: Template
    text: Template | None

    kind = "alert"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(takes="changes" if self.table_key else "facts", late=False),)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=self.keys, at_tick=True)

    def output_edge(self, output: str = "") -> Edge:
        # groups come and go, notifications are told once
        return Edge("stream", self.name, output) if output else super().output_edge()

    @property
    def group(self) -> Schema:
        """The columns of the key."""
        return self.entering.only(self.keys)

    @property
    def notified(self) -> Schema:
        return Schema((*self.group.columns, *NOTIFIED))

    def enter(self, number: int, rows: str) -> Entry:
        over = f"coalesce(({self.resolve}), false)" if self.resolve else "false"
        columns = self.entering.names
        if self.table_key:
            return Entry.of_changes(columns, rows, f"{over} AS {OVER}")
        source = f"(SELECT *, {over} AS {OVER} FROM {rows})"
        return Entry.of_facts((*columns, OVER), source)

    def uses(self, number: int) -> Iterable[Use]:
        yield from Use.of_sql("resolve", self.resolve)
        for what, each in (("title", self.title), ("text", self.text)):
            if each is not None:
                yield Use.of(what, each.names, each.written)
        # groups are named in what people read, and silenced by it
        yield Use.of("group_by", self.keys)

    def passes(self, number: int, output: str) -> Mapping[str, str]:
        return {}

    def words(self) -> Words:
        times = self.times
        lines = [("waits", duration_text(times.wait)), ("more", duration_text(times.interval))]
        if times.repeat is not None:
            lines.append(("repeats", duration_text(times.repeat)))
        if self.resolve is not None:
            lines.append(("over", plain(self.resolve)))
        if times.resolve_after is not None:
            lines.append(("over", f"{duration_text(times.resolve_after)} without a row"))
        lines += [("calls", f"others after {duration_text(each)}") for each in times.escalate]
        lines.append(("title", self.title.written))
        return Words.of(*lines)

    def frozen(self) -> dict[str, Any]:
        return {"of": "changes" if self.table_key else "facts"}

    def settings(self) -> dict[str, Any]:
        text = None if self.text is None else self.text.written
        times = {**vars(self.times), "escalate": list(self.times.escalate)}
        return {**times, "resolve": self.resolve, "title": self.title.written, "text": text}

    @property
    def wakes_with_tick(self) -> bool:
        return True
