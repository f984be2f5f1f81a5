"""Steps with live rules: what the program says of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from riverrun.columns import PLACE, TIME
from riverrun.durations import BEGINNING, duration_text
from riverrun.kernels.functions import Function
from riverrun.kernels.operator import Entry, Leaving, PlainOperator, Words
from riverrun.kernels.uses import Use
from riverrun.operators.rules.shape import Frame
from riverrun.schema import Column, Schema, columns_text

SAID = (Column("rule", "VARCHAR"), Column("version", "BIGINT"), Column("metadata", "VARCHAR"))
"""What a row tells of the rule that it is of."""


@dataclass(frozen=True, kw_only=True)
class RulesSpec(PlainOperator):
    """What a step is told; its kernel is beside this file."""

    entering: Schema
    """Of the rows."""
    measures: Schema
    """What every rule may tell of a match."""
    templates: tuple[tuple[str, str], ...]
    """Patterns with open parameters, by their names."""
    times: tuple[str, ...]
    """The columns that event time is taken from."""
    longest: int
    """How long a match of a rule may take at most: what comes behind waits for it."""
    max_rows: int
    timeouts: bool
    """Whether partial matches that run out of time are told."""

    kind = "rules"
    takes = "facts"
    can_be_late = True

    @cached_property
    def frame(self) -> Frame:
        return Frame(
            self.name, self.entering, self.keys, self.key_types, self.measures, self.times,
            self.longest, self.max_rows, self.timeouts, self.on_error, self.at,
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        return True

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.keys, delay=self.longest)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_facts(self.entering.visible.names, rows)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of a row that wait with it: any of them may be in a rule that comes."""
        own = (name for name in self.entering.visible.names if name not in self.keys)
        return ("__hash", *self.keys, *own, TIME, "__pos", "__sub")

    def as_entered(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(*self.entering.visible.names, *PLACE)

    def uses(self, number: int) -> Iterable[Use]:
        # any rule that comes may read any column
        return (Use.of("live rules", self.entering.visible.names),)

    def words(self) -> Words:
        lines = [("rules", "from the control log: riverrun rules")]
        lines += [("template", name) for name, _ in self.templates]
        longest = duration_text(self.longest)
        lines += [("measures", columns_text(self.measures)), ("within", f"at most {longest}")]
        if self.timeouts:
            lines.append(("gives", "matches, and partial ones that time out"))
        data = {
            "templates": dict(self.templates),
            "measures": columns_text(self.measures),
            "longest": longest,
        }
        return Words(lines, ["live rules", *(name for name, _ in self.templates)], data)

    def frozen(self) -> dict[str, Any]:
        columns = ", ".join(f"{c.name} {c.type}" for c in self.entering.visible.columns)
        return {"columns": columns, "measures": columns_text(self.measures)}

    def settings(self) -> dict[str, Any]:
        return {
            "templates": dict(self.templates),
            "longest": self.longest,
            "max_rows": self.max_rows,
            "timeouts": self.timeouts,
        }

    def last_closed(self, clock: int) -> int:
        return clock - 1 if clock > BEGINNING else BEGINNING

    @property
    def fails_on(self) -> str | None:
        return "matches that a measure fails on, or that would have too many rows"

    @property
    def functions(self) -> tuple[Function, ...]:
        """All that the program's line sees: a rule that comes may call any of them."""
        return tuple(each for each in self.at.visible.values() if isinstance(each, Function))
