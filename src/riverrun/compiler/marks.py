"""Which columns of a node hold texts that stand for personal values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from riverrun.forgetting.declared import Mark, Personal
from riverrun.kernels import sql
from riverrun.kernels.program import ReadTopic
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.decide.spec import Decide
from riverrun.operators.joins.join import Join
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
                return self._step(node)
            case Emitted():
                return self._emitted(node)
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

    def _emitted(self, node: Emitted) -> Marks:
        if isinstance(node.input.does, Decide):
            marks = [self.of(each) for each in node.input.inputs]
            return {} if node.output != "events" else _alike(node.schema, marks)
        return _alike(node.schema, [self.of(each) for each in node.input.inputs])

    def _step(self, node: Step) -> Marks:
        given = [self.of(each) for each in node.inputs]
        does = node.does
        if isinstance(does, Aggregate):
            return {name: mark for name, mark in given[0].items() if name in does.keys}
        if isinstance(does, Join):
            return _joined(does, given)
        return _alike(node.schema, given)


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


def _joined(does: Join, given: list[Marks]) -> Marks:
    found: dict[str, Mark] = {}
    for side, marks in zip((does.left, does.right), given, strict=True):
        for name, mark in marks.items():
            result = side.renamed.get(name, name)
            if result in does.schema:
                found.setdefault(result, mark)
    return found


def _computed(node: Select | WithColumns, given: Marks, *, kept: Marks) -> Marks:
    made = {name: mark_of(text, given, name) for name, text in node.columns}
    left = {name: mark for name, mark in kept.items() if name not in made}
    return left | {name: mark for name, mark in made.items() if mark is not None}


def mark_of(expression: str, given: Marks, name: str) -> Mark | None:
    """That of what an expression gives."""
    for column, mark in given.items():
        if expression == quoted(column):
            return mark
    used = [(each, given[each]) for each in used_in(expression, given, private=True)]
    for _, mark in used:
        if not mark.fields or name in mark.fields:
            return Mark(mark.subject)
    return None


def used_in(expression: str, given: Marks, *, private: bool = False) -> list[str]:
    """The personal columns that an expression reads; those outside of public(…) only."""
    if not given:
        return []
    names = sql.names_in(expression)
    found = names.kept_private if private else names.every
    return [column for column in given if column.lower() in found]
