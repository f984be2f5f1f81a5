"""What expressions say of rows of a match: PREV, NEXT, FIRST, LAST, aggregates, a.column.

An expression is read into a tree in which each of these is one node of the class "ROW", with what
it asks for as a `Ref`. What is left around them is SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from riverrun.errors import ProgramError
from riverrun.kernels import sql
from riverrun.operators.match.bounded import require_bounded
from riverrun.operators.match.clauses import Expression
from riverrun.operators.match.text import Text
from riverrun.operators.match.trees import (
    Tree,
    aggregates,
    arguments,
    call_of,
    changed,
    column,
    nodes,
    plain_column,
    tree_of,
    value_of,
    written,
)
from riverrun.schema import Column, Schema, first_line

CLASS = "__class"
"""The name of the variable that a row is matched to."""
NUMBER = "__number"
"""The number of the match."""
NAVIGATION = ("first", "last", "prev", "next")
STEPS = {"prev": -1, "next": 1}
MOST = 1000
"""How far PREV, NEXT, FIRST and LAST reach at most."""


@dataclass(frozen=True)
class Ref:
    """A value of a row of the match, or an aggregate over some of its rows."""

    value: str
    """A column, or an expression over the columns of one row; empty for the number of the match,
    and for COUNT(*)."""
    type: str
    group: tuple[int, ...] | None = None
    """Which variables; None: all of them."""
    which: Literal["first", "last"] = "last"
    offset: int = 0
    """How many further rows of the group from there."""
    shift: int = 0
    """How many rows of the key from there: before it (-) or after it."""
    final: bool = False
    """Of the whole match, not of the rows so far."""
    aggregate: str | None = None
    distinct: bool = False
    more: tuple[tuple[str, bool], ...] = ()
    """Of an aggregate of several values: the further ones, and whether each is a constant."""

    @property
    def plain(self) -> str | None:
        """The column that the value is, if it is one."""
        found = re.fullmatch(r'"((?:[^"]|"")+)"|([A-Za-z_]\w*)', self.value)
        return (found[1] or found[2]).replace('""', '"') if found else None


class Node(NamedTuple):
    """A `Ref` in a tree."""

    ref: Ref
    place: int


def refs(tree: Tree) -> list[Node]:
    return [Node(node["ref"], node["place"]) for node in nodes(tree) if node["class"] == "ROW"]


def _ref_node(ref: Ref, place: int) -> Tree:
    return {"class": "ROW", "type": "ROW", "ref": ref, "place": place}


@dataclass(frozen=True)
class Scope:
    """What names mean in the expressions of a pattern."""

    source: Text
    schema: Schema
    variables: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Variables and subsets, in small letters, with the numbers of the variables they are of."""
    own: tuple[int, ...] | None = None
    """The variables of rows that are in a match, if some are only passed over."""
    live: bool = False
    """Whether expressions come while a job runs."""

    def read(self, expression: Expression, *, final: bool, measure: bool) -> Tree:
        """`final`: whether values are those of the whole match unless RUNNING is said."""
        text, modes = self._without_modes(expression)
        given = Expression(text, expression.begin)
        tree = tree_of(self.source, given, self.schema.names)
        if self.live:
            require_bounded(self.source, tree)
        if "FINAL" in modes.values() and not measure:
            place = next(place for place, mode in modes.items() if mode == "FINAL")
            raise self.source.error(
                "FINAL is for measures: a condition sees the match so far", place
            )
        return _Reader(self, modes, final=final, measure=measure).read(tree)

    def _without_modes(self, expression: Expression) -> tuple[str, dict[int, str]]:
        """The text without RUNNING and FINAL, which SQL does not have; where they apply."""
        modes = {}

        def blank(found: re.Match[str]) -> str:
            modes[expression.begin + found.end()] = found[1].upper()
            return " " * len(found[0])

        pattern = r"\b(RUNNING|FINAL)\s+(?=\w+\s*\()"
        return re.sub(pattern, blank, expression.text, flags=re.IGNORECASE), modes

    def type_of(self, text: str, place: int) -> str:
        """The type of an expression over one row."""
        return self.checked(text, self.with_class, place)

    @property
    def with_class(self) -> Schema:
        return Schema((*self.schema.columns, Column(CLASS, "VARCHAR", hidden=True)))

    def checked(self, text: str, schema: Schema, place: int) -> str:
        try:
            return sql.type_of(text, schema, self.source.at)
        except ProgramError as error:
            fact = error.fact
            if fact == "an expression cannot be evaluated":
                fact = f"{fact}: {str(error.got).partition(': ')[2]}"
            raise self.source.error(fact, place, error.hint) from error

    def aggregate_type(self, call: str, place: int) -> str:
        try:
            found = sql.schema_after(f"SELECT {call} AS result FROM checked", self.with_class)
        except Exception as error:
            raise self.source.error(
                f"an aggregate cannot be made: {first_line(error)}", place
            ) from error
        return found.columns[0].type


@dataclass(frozen=True)
class _Reader:
    scope: Scope
    modes: dict[int, str]
    final: bool
    measure: bool

    def read(self, tree: Tree) -> Tree:
        """The tree with a node for each value of a row."""
        call = call_of(tree)
        if call in NAVIGATION:
            return _ref_node(self._navigation(tree), tree["place"])
        if call in ("classifier", "match_number"):
            return _ref_node(self._special(tree, call), tree["place"])
        if call in aggregates() or call == "count_star":
            return _ref_node(self._aggregate(tree, call), tree["place"])
        if tree["class"] == "COLUMN_REF":
            return _ref_node(self._last(tree), tree["place"])
        return {name: self._within(part) for name, part in tree.items()}

    def _within(self, part: object) -> object:
        if isinstance(part, dict):
            if "class" in part:
                return self.read(part)
            return {name: self._within(each) for name, each in part.items()}
        return [self._within(each) for each in part] if isinstance(part, list) else part

    def _mode(self, tree: Tree) -> bool:
        mode = self.modes.get(tree["place"])
        return self.final if mode is None else mode == "FINAL"

    def _last(self, tree: Tree) -> Ref:
        value, type, group = self._row_value(tree)
        return Ref(value, type, group, final=self.final)

    def _special(self, tree: Tree, call: str) -> Ref:
        if call == "classifier":
            return self._last(tree)
        if arguments(tree):
            raise self.scope.source.error("MATCH_NUMBER takes no argument", tree["place"])
        return Ref("", "BIGINT")

    def _navigation(self, tree: Tree) -> Ref:
        call, (value, *rest) = call_of(tree), arguments(tree) or [tree]
        if value is tree or len(rest) > 1:
            raise self.scope.source.error(
                f"{call.upper()} takes a value and a number",
                tree["place"],
                f"{call.upper()}(a.price, 1)",
            )
        count = self._count(rest[0]) if rest else int(call in STEPS)
        if call not in STEPS:
            text, type, group = self._row_value(value)
            which: Literal["first", "last"] = "first" if call == "first" else "last"
            return Ref(text, type, group, which, count, final=self._mode(tree))
        inner = call_of(value)
        if inner in STEPS:
            raise self.scope.source.error(
                "PREV and NEXT do not stand in each other", value["place"]
            )
        base = self._navigation(value) if inner in NAVIGATION else self._last(value)
        if CLASS in base.value:
            raise self.scope.source.error(
                f"{call.upper()} of CLASSIFIER is not there: a row may be in no match",
                tree["place"],
            )
        return replace(base, shift=STEPS[call] * count)

    def _count(self, tree: Tree) -> int:
        value = None if any(nodes_with_columns(tree)) else value_of(written(tree))
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self.scope.source.error(
                f"a whole number from 0 to {MOST} is expected", tree["place"]
            )
        return value

    def _aggregate(self, tree: Tree, call: str) -> Ref:
        values, place = arguments(tree), tree["place"]
        if tree["filter"] or tree["order_bys"]["orders"]:
            raise self.scope.source.error(
                "FILTER and ORDER BY are not for patterns", place, "name a variable, or a SUBSET"
            )
        final = self._mode(tree)
        if call == "count_star" or (call == "count" and values[0]["class"] == "STAR"):
            group = self._group_of(values[0]["relation_name"], place) if values else self.scope.own
            return Ref("", "BIGINT", group, final=final, aggregate="count")
        if not values:
            raise self.scope.source.error("an aggregate takes a value", place)
        text, group, more = self._row_values(values)
        distinct = bool(tree["distinct"])
        given = ", ".join((text, *(each for each, _ in more)))
        type = self.scope.aggregate_type(f"{call}({'DISTINCT ' * distinct}{given})", place)
        return Ref(text, type, group, final=final, aggregate=call, distinct=distinct, more=more)

    def _row_values(
        self, values: list[Tree]
    ) -> tuple[str, tuple[int, ...] | None, tuple[tuple[str, bool], ...]]:
        """The first of several values of one row, of which variables the row is, and the others."""
        found = [self._row_value(each) for each in values]
        constant = [not any(nodes_with_columns(each)) for each in values]
        for n, each in enumerate(values):
            constant[n] = constant[n] and "classifier" not in map(call_of, nodes(each))
        given = zip(values, found, constant, strict=True)
        named = {group: each["place"] for each, (_, _, group), same in given if not same}
        if len(named) > 1:
            raise self.scope.source.error(
                "one value is taken of rows of different variables", list(named.values())[1]
            )
        group = next(iter(named), found[0][2])
        texts = (text for text, _, _ in found)
        return found[0][0], group, tuple(zip(texts, constant, strict=True))[1:]

    def _row_value(self, tree: Tree) -> tuple[str, str, tuple[int, ...] | None]:
        """An expression over one row: its text and type, and of which variables the row is."""
        groups: dict[tuple[int, ...] | None, int] = {}

        def bare(node: Tree) -> Tree:
            call = call_of(node)
            if call in NAVIGATION or call in aggregates() or call == "match_number":
                raise self.scope.source.error(
                    f"{call.upper()} cannot stand inside of another", node["place"]
                )
            if node["class"] == "COLUMN_REF" and node["column_names"] != [CLASS]:
                group, named = self._column(node)
                groups.setdefault(group, node["place"])
                return named
            return node

        def classes(node: Tree) -> Tree:
            if call_of(node) != "classifier":
                return node
            groups.setdefault(self._classified(node), node["place"])
            return column(CLASS, node["place"])

        made = changed(changed(tree, classes), bare)
        if len(groups) > 1:
            raise self.scope.source.error(
                "one value is taken of rows of different variables",
                list(groups.values())[1],
                "take each by itself: LAST(a.price) - LAST(b.price)",
            )
        text = written(made)
        if CLASS in text and plain_column(made) is None:
            raise self.scope.source.error("CLASSIFIER() is to stand alone there", tree["place"])
        group = next(iter(groups), None)
        if group is None and self.measure:
            group = self.scope.own
        return text, self.scope.type_of(text, tree["place"]), group

    def _classified(self, node: Tree) -> tuple[int, ...] | None:
        values = arguments(node)
        name = plain_column(values[0]) if len(values) == 1 else None
        if values and name is None:
            raise self.scope.source.error("CLASSIFIER takes a variable", node["place"])
        return self._group_of(name, node["place"]) if name else None

    def _column(self, node: Tree) -> tuple[tuple[int, ...] | None, Tree]:
        """The group that a column is qualified with, and the column without it."""
        first, *rest = node["column_names"]
        if not rest or (first in self.scope.schema and first.lower() not in self.scope.variables):
            return None, self._spelled(node, node["column_names"])
        return self._group_of(first, node["place"]), self._spelled(node, rest)

    def _spelled(self, node: Tree, names: list[str]) -> Tree:
        """Capital letters as the column has them: SQL does not tell them from small ones."""
        first = self.scope.schema.taken(names[0]) or names[0]
        return {**node, "column_names": [first, *names[1:]]}

    def _group_of(self, name: str, place: int) -> tuple[int, ...]:
        found = self.scope.variables.get(name.lower())
        if found is None:
            known = ", ".join(self.scope.variables)
            raise self.scope.source.error(
                f"there is no variable {name!r}", place, f"in the pattern: {known}"
            )
        return found


def nodes_with_columns(tree: Tree) -> Iterator[Tree]:
    return (node for node in nodes(tree) if node["class"] in ("COLUMN_REF", "ROW", "STAR"))
