"""Which columns of a node hold texts that stand for personal values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, assert_never

from riverrun.forgetting.declared import Mark, Personal
from riverrun.kernels import sql
from riverrun.kernels.program import ReadTopic
from riverrun.operators.aggregate import Aggregate
from riverrun.plan.nodes import (
    Emitted,
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Plan,
    Select,
    SparkStep,
    Step,
    Union,
    Versions,
    Where,
    WithColumns,
    WithTime,
)
from riverrun.schema import Schema, quoted

Marks = Mapping[str, Mark]
"""By column."""


class PlanMarks:
    """Those of all nodes of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.found: dict[int, Marks] = {}
        self.written = {each.sink.kafka_topic(): each for each in plan.outputs}

    def of(self, node: Node) -> Marks:
        if id(node) not in self.found:
            self.found[id(node)] = {}  # a topic that is made of itself
            self.found[id(node)] = self._of(node)
        return self.found[id(node)]

    def _of(self, node: Node) -> Marks:
        match node:
            case ReadTopic():
                return self._read(node)
            case Select():
                return _computed(node, self.of(node.input), kept={})
            case WithColumns():
                return _computed(node, self.of(node.input), kept=self.of(node.input))
            case Step():
                return self._step(node, "", node.schema)
            case Emitted():
                return self._step(node.input, node.output, node.schema)
            case Late():
                return self.of(node.input.inputs[node.number])
            case Union():
                return _alike(node.schema, [self.of(each) for each in node.inputs])
            case Where() | Map() | Explode() | KeyBy() | WithTime() | SparkStep() | Versions():
                return _alike(node.schema, [self.of(node.input)])
            case _:
                assert_never(node)

    def _read(self, node: ReadTopic) -> Marks:
        output = self.written.get(node.topic) if node.own else None
        before = {} if output is None else _alike(node.schema, [self.of(output.input)])
        return {**before, **declared(node.personal)}

    def _step(self, node: Step, output: str, schema: Schema) -> Marks:
        given = [self.of(each) for each in node.inputs]
        if isinstance(node.does, Aggregate):
            return {name: mark for name, mark in given[0].items() if name in node.does.keys}
        return _alike(
            schema,
            [_renamed(marks, node.does.passes(n, output)) for n, marks in enumerate(given)],
        )


def declared(personal: Iterable[Personal]) -> Marks:
    found: dict[str, Mark] = {}
    for each in personal:
        if each.inside is not None:
            found[each.inside] = Mark(each.subject, each.columns)
        else:
            found |= dict.fromkeys(each.columns, Mark(each.subject))
    return found


def _alike(schema: Schema, given: Iterable[Marks]) -> Marks:
    """Columns of the same name: what code of one's own passes on is not known better."""
    found: dict[str, Mark] = {}
    for marks in given:
        for name, mark in marks.items():
            if name in schema and schema.type_of(name) in ("VARCHAR", "JSON"):
                found.setdefault(name, mark)
    return found


def _renamed(given: Marks, names: Mapping[str, str] | None) -> Marks:
    if names is None:
        return given
    return {made: given[name] for made, name in names.items() if name in given}


def _computed(node: Select | WithColumns, given: Marks, *, kept: Marks) -> Marks:
    made = {name: mark_of(text, given, name) for name, text in node.columns}
    left = {name: mark for name, mark in kept.items() if name not in made}
    return left | {name: mark for name, mark in made.items() if mark is not None}


def mark_of(expression: str, given: Marks, name: str) -> Mark | None:
    """That of what an expression gives."""
    for column, mark in given.items():
        if expression == quoted(column):
            return mark
    for each in used_in(expression, given, "private"):
        mark = given[each]
        if not mark.fields or name in mark.fields or fields_in(expression, mark):
            return Mark(mark.subject)
    return None


def fields_in(expression: str, mark: Mark) -> list[str]:
    """The personal fields of a column of JSON that an expression over it names."""
    return [each for each in mark.fields if re.search(rf"\b{re.escape(each)}\b", expression)]


def used_in(
    expression: str, given: Marks, how: Literal["every", "values", "private"] = "every"
) -> list[str]:
    """The personal columns that an expression names; those whose values it reads; and those of
    them that are outside of public(…)."""
    if not given:
        return []
    found: frozenset[str] = getattr(sql.names_in(expression), how)
    return [column for column in given if column.lower() in found]
