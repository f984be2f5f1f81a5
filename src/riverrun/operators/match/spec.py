"""Steps that match a pattern in the rows of each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from riverrun.columns import AT, PLACE, TIME
from riverrun.durations import BEGINNING, duration_text
from riverrun.kernels.operator import Entry, Leaving, PlainOperator, Words
from riverrun.kernels.sql import names_in
from riverrun.kernels.uses import Use
from riverrun.operators.match.clauses import Rows
from riverrun.operators.match.conditions import Conditions, Shifted, with_bits
from riverrun.operators.match.measures import Measures
from riverrun.operators.match.search import Matching
from riverrun.schema import Schema, column_list

MASK = "__mask"
"""Which conditions on a row alone hold, a bit for each variable."""
TIMED_OUT = "timed_out"
"""The output of partial matches that ran out of time."""


@dataclass(frozen=True, kw_only=True)
class MatchSpec(PlainOperator):
    """What a step is told; its kernel is beside this file."""

    entering: Schema
    """Of the rows."""
    text: str
    """The pattern as it was written."""
    written: tuple[tuple[str, str], ...]
    """Variables, with their conditions as they were written."""
    matching: Matching
    conditions: Conditions
    measures: Measures
    rows: Rows
    carried: tuple[str, ...]
    """Columns of the rows that are kept with them."""
    computed: tuple[tuple[str, str], ...]
    """Name and expression of what is computed of a row as it enters."""
    shifted: tuple[tuple[str, Shifted], ...]
    """Columns with values of other rows of the key."""
    numbers_for: int | None
    """How long after a match the next one of its key has a higher number."""

    takes = "facts"
    can_be_late = True

    @property
    def holds(self) -> bool:
        return True

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.keys, delay=self.matching.within)

    def enter(self, number: int, rows: str) -> Entry:
        columns = (*self.entering.visible.names, *self.hidden, *PLACE)
        made = [f"({text}) AS {name}" for name, text in self.computed]
        made.append(f"({with_bits(self.conditions.own)}) AS {MASK}")
        made.append(f"epoch_us({AT}) AS {TIME}")
        return Entry(f"SELECT {column_list(columns)}, {', '.join(made)} FROM {rows}")

    @property
    def hidden(self) -> tuple[str, ...]:
        """What Kafka knows of a record, where the pattern uses it."""
        visible = self.entering.visible.names
        return tuple(name for name in self.carried if name not in visible)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of a row that wait with it."""
        made = (name for name, _ in self.computed)
        own = (name for name in self.carried if name not in self.keys)
        return ("__hash", *self.keys, TIME, "__pos", "__sub", MASK, *own, *made)

    def as_entered(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(*self.entering.visible.names, *PLACE)

    def uses(self, number: int) -> Iterable[Use]:
        written = "; ".join(f"{name} AS {text}" for name, text in self.written)
        yield Use.of("DEFINE", self._behind(self._asked()), written)
        passed = self._passed()
        for each in self.measures.measures:
            if each.name not in passed:
                yield Use.of("MEASURES", self._behind(self.measures.computed_of(each)), each.name)

    def passes(self, number: int, output: str) -> Mapping[str, str]:
        every_row = self.rows == "all" and not output
        whole = self.entering.visible.names if every_row else self.keys
        return {name: name for name in whole} | self._passed()

    def _passed(self) -> dict[str, str]:
        """Measures that are a column's value as it is."""
        shifted = {name: each.column for name, each in self.shifted}
        values = {value.name: value.column for value in self.measures.values}
        found = {m.name: values[m.value] for m in self.measures.measures if m.value is not None}
        taken = {name: shifted.get(column, column) for name, column in found.items()}
        return {name: column for name, column in taken.items() if column in self.entering}

    def _asked(self) -> Iterator[str]:
        """Columns that conditions are over."""
        for text in (*self.conditions.own, *self.conditions.near):
            yield from names_in(text).every if text is not None else ()
        yield from self.conditions.dependent.columns

    def _behind(self, columns: Iterable[str]) -> Iterator[str]:
        """The columns of rows that those are made of which the step adds to them."""
        shifted = {name: each.column for name, each in self.shifted}
        computed = dict(self.computed)
        for name in columns:
            taken = shifted.get(name, name)
            yield from names_in(computed[taken]).every if taken in computed else (taken,)

    def words(self) -> Words:
        automaton, within = self.matching.automaton, duration_text(self.matching.within)
        conditions = [f"{name}: {text}" for name, text in self.written]
        lines = [("pattern", self.text), ("within", within), ("skip", self._skip())]
        lines += [("where", each) for each in conditions]
        lines += [("state", each) for each in automaton.lines()]
        lines.append(("gives", self.gives()))
        data = {
            "pattern": self.text,
            "within": within,
            "skip": self._skip(),
            "conditions": conditions,
            "states": automaton.lines(),
            "automaton": automaton_mermaid(self),
            "gives": self.gives(),
        }
        return Words(lines, [self.text, f"within {within}"], data)

    def _skip(self) -> str:
        names = self.matching.automaton.variables
        to = ", ".join(names[n] for n in self.matching.skip_to)
        return f"{self.matching.skip} {to}".strip()

    def gives(self) -> str:
        what = "one row per match" if self.rows == "one" else "all rows of a match"
        return f"{what}, and partial matches that time out" if self.matching.timeouts else what

    def frozen(self) -> dict[str, Any]:
        automaton = self.matching.automaton
        return {
            "variables": list(automaton.variables),
            "follow": [list(each) for each in automaton.follow],
            "conditions": [list(self.conditions.own), list(self.conditions.near)],
            "dependent": repr(self.conditions.dependent),
            "within": self.matching.within,
            "skip": self._skip(),
            "carried": [*self.carried, *(text for _, text in self.computed)],
            "numbers": self.numbers_for,
        }

    def settings(self) -> dict[str, Any]:
        measures = {each.name: each.text for each in self.measures.measures}
        return {"measures": measures, "rows": self.rows, "max_rows": self.matching.max_rows}

    def last_closed(self, clock: int) -> int:
        return clock - 1 if clock > BEGINNING else BEGINNING

    @property
    def fails_on(self) -> str | None:
        return "matches that a measure fails on, or that would have too many rows"

    @cached_property
    def reach(self) -> tuple[int, int]:
        """How many rows before a match, and after a row of it, are looked at."""
        automaton = self.matching.automaton
        before = [-shift - automaton.depth(v) for v, shift in self.conditions.shifts if shift < 0]
        shifts = [each.shift for _, each in self.shifted]
        taken = {value.column for value in self.measures.values}
        measured = [-each.shift for name, each in self.shifted if name in taken]
        return max(0, *before, *measured, 0), max(0, *shifts, 0)

    @property
    def one_row(self) -> Schema:
        """The columns of one row per match."""
        keys = [each for each in self.entering.columns if each.name in self.keys]
        return Schema((*keys, *self.measures.columns))


def automaton_mermaid(step: MatchSpec) -> str:
    """The automaton as a state diagram: each state with its condition."""
    automaton, conditions = step.matching.automaton, dict(step.written)
    names = [f"s{p}" for p in range(len(automaton.var))]
    lines = ["stateDiagram-v2"]
    for p, (name, variable) in enumerate(zip(automaton.names(), automaton.var, strict=True)):
        lines.append(f'    state "{name}" as s{p}')
        if condition := conditions.get(automaton.variables[variable]):
            lines.append(f"    s{p} : {_in_mermaid(condition)}")
    for p, targets in enumerate(automaton.follow):
        source = "[*]" if p == len(names) else names[p]
        for n, target in enumerate(targets, 1):
            label = "" if len(targets) == 1 else f" : {n}"
            if target < 0:
                word = "" if target == -1 else f" : {n}, time is over"
                lines.append(f"    {source} --> [*]{word or label}")
            else:
                lines.append(f"    {source} --> {names[target]}{label}")
    return "\n".join(lines)


def _in_mermaid(condition: str) -> str:
    """On one line, without what a diagram takes for its own: ends of lines, tags, classes."""
    signs = str.maketrans({";": "#59;", "<": "#lt;", ">": "#gt;"})
    text = " ".join(condition.split()).translate(signs)
    return text.replace("::", "#58;#58;")
