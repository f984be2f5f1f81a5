"""Aggregates in two parts: each page makes one row of each group, and these are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from riverrun.operators.match.trees import Tree, arguments, call_of
from riverrun.questions.select import (
    Select,
    Whole,
    canonical,
    described,
    expressions,
    over_rows,
    written,
)
from riverrun.schema import Schema, schema_of

WHOLE_NUMBERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
)  # fmt: skip
REALS = ("FLOAT", "DOUBLE")

Merge = tuple[tuple[str, ...], str]
"""The aggregates of a page, by name, and SQL that merges them: `{0}` is the first."""
COUNTED: Merge = ("count",), "coalesce(sum({0}), 0)"
MERGES: dict[str, Merge] = {
    "avg": (("sum", "count"), "sum({0})::DOUBLE / nullif(sum({1}), 0)"),
    "bool_and": (("bool_and",), "bool_and({0})"),
    "bool_or": (("bool_or",), "bool_or({0})"),
    "count": COUNTED,
    "count_star": (("count_star",), COUNTED[1]),
    "max": (("max",), "max({0})"),
    "mean": (("sum", "count"), "sum({0})::DOUBLE / nullif(sum({1}), 0)"),
    "min": (("min",), "min({0})"),
    "sum": (("sum",), "sum({0})"),
}  # fmt: skip
AS_OFTEN = ("max", "min", "bool_and", "bool_or")
"""Those that give the same however often a row is there."""


@dataclass(frozen=True)
class Partial:
    page: str
    final: str
    sent: Schema
    """What pages send."""


def partial(select: Select, names: list[str]) -> Partial:
    """What pages are asked, and what makes the answer of it, with these names of columns."""
    if select.windows or not select.groups:
        raise Whole("there is nothing to merge")
    return _Parts(select).made(names)


@dataclass
class _Parts:
    select: Select
    keys: dict[str, str] = field(default_factory=dict)
    """Groups, and what pages call them."""
    merged: dict[str, Tree] = field(default_factory=dict)
    """Aggregates, and what they are over what pages send."""

    def made(self, names: list[str]) -> Partial:
        node, groups = self.select.node, self._groups()
        self.keys = {self._key(each): f"__k{n}" for n, each in enumerate(groups)}
        parts = self._parts()
        keyed = [{**each, "alias": self.keys[self._key(each)]} for each in groups]
        page = over_rows(node) | {
            "select_list": [*keyed, *parts], "modifiers": [], "having": None, **_grouped(groups)
        }  # fmt: skip
        final = over_rows(node) | {
            "select_list": [
                {**self._over_parts(each), "alias": name}
                for each, name in zip(node["select_list"], names, strict=True)
            ],
            "modifiers": [self._modifier(each) for each in node["modifiers"]],
            "having": node["having"] and self._checked(node["having"]),
            "where_clause": None,
            **_grouped(expressions(*self.keys.values())),
        }
        text = written(page)
        return Partial(text, written(final), schema_of(described(text, self.select.schema)))

    def _key(self, tree: Tree) -> str:
        return canonical(tree, self.select.table)

    def _groups(self) -> list[Tree]:
        """What rows are grouped by, each once."""
        select, node = self.select, self.select.node
        if node["where_clause"] and not select.of_rows(node["where_clause"]):
            raise Whole("the condition is not one of a row")
        given = node["group_expressions"]
        if node["aggregate_handling"] == "FORCE_AGGREGATES":
            given = [each for each in select.items if not select.calls(each)]
        elif given and node["group_sets"] != [list(range(len(given)))]:
            raise Whole("there are several groupings")
        found: dict[str, Tree] = {}
        for each in given:
            meant = select.item(each) or self._by_alias(each) or each
            if not select.of_rows(meant) or select.calls(meant):
                raise Whole("a group is not one of rows")
            found.setdefault(self._key(meant), meant)
        return list(found.values())

    def _by_alias(self, tree: Tree) -> Tree | None:
        """A column comes before an alias."""
        known = tree.get("column_names", [""])[0].lower() in self.select.columns
        return None if known else self.select.alias(tree)

    def _parts(self) -> list[Tree]:
        """What pages make for the aggregates; how it is merged is noted."""
        calls = {self._key(each): each for each in self.select.aggregated}
        for each in calls.values():
            self._require_mergeable(each)
        types = self._types(list(calls.values()))
        made: list[Tree] = []
        merges: list[str] = []
        for call, type in zip(calls.values(), types, strict=True):
            functions, merge = MERGES[call_of(call)]
            called = [f"__a{len(made) + n}" for n in range(len(functions))]
            made += map(_call, [call] * len(functions), functions, called)
            merges.append(f"CAST({merge.format(*called)} AS {type})")
        self.merged = dict(zip(calls, expressions(*merges), strict=True))
        return made

    def _require_mergeable(self, call: Tree) -> None:
        given, name = arguments(call), call_of(call)
        if name not in MERGES or call["distinct"] or call["export_state"]:
            raise Whole("it cannot be merged")
        inside = [*given, *([call["filter"]] if call["filter"] else [])]
        if len(given) > 1 or self.select.calls(inside) or not self.select.of_rows(inside):
            raise Whole("it is not made of single rows")
        if name in ("avg", "mean"):
            [type] = self._types([_call(call, "max", "")])
            if type not in (*WHOLE_NUMBERS, *REALS):  # of decimals, the last digit would be another
                raise Whole("the average of something else")

    def _types(self, calls: list[Tree]) -> list[str]:
        if not calls:
            return []
        node = {**over_rows(self.select.node), "select_list": calls, "where_clause": None}
        node |= {"modifiers": [], "having": None, **_grouped([])}
        return [type for _, type in described(written(node), self.select.schema)]

    def _modifier(self, modifier: Tree) -> Tree:
        if modifier["type"] == "DISTINCT_MODIFIER" and modifier["distinct_on_targets"]:
            raise Whole("rows are told apart by something else")
        if modifier["type"] != "ORDER_MODIFIER":
            return modifier
        return {**modifier, "orders": [self._order(each) for each in modifier["orders"]]}

    def _order(self, order: Tree) -> Tree:
        by = order["expression"]
        stays = self.select.alias(by) or by["class"] in ("CONSTANT", "STAR")
        return order if stays else {**order, "expression": self._checked(by)}

    def _checked(self, tree: Tree) -> Tree:
        if self.select.hides(tree):
            raise Whole("it is not clear what a name means")
        return self._over_parts(tree)

    def _over_parts(self, tree: Tree) -> Tree:
        """Over what pages send, instead of over rows."""
        keys = dict(zip(self.keys, expressions(*self.keys.values()), strict=True))
        known = {**self.merged, **keys}

        def replaced(node: Any) -> Any:
            if isinstance(node, list):
                return [replaced(each) for each in node]
            if not isinstance(node, dict):
                return node
            if "class" in node:
                key = self._key(node)
                if key in known:
                    return {**known[key], "alias": node["alias"]}
                if node["class"] in ("STAR", "WINDOW"):
                    raise Whole("it names all columns")
                self._require_known(node)
            return {name: replaced(part) for name, part in node.items()}

        found: Tree = replaced(tree)
        return found

    def _require_known(self, node: Tree) -> None:
        """What is left of the names are those of other items."""
        if node["class"] != "COLUMN_REF":
            return
        name = node["column_names"][0].lower()
        if name in self.select.columns or self.select.alias(node) is None:
            raise Whole("a column that is not grouped by")


def _grouped(by: list[Tree]) -> Tree:
    return {
        "group_expressions": by,
        "group_sets": [list(range(len(by)))] if by else [],
        "aggregate_handling": "STANDARD_HANDLING",
    }


def _call(call: Tree, function: str, alias: str) -> Tree:
    return {
        **call, "function_name": function, "qualified_name": {"path": [function]}, "alias": alias
    }  # fmt: skip


def as_often(call: Tree) -> bool:
    """Whether an aggregate is the same however often its rows are there."""
    alone = len(arguments(call)) == 1  # min(x, 3) gives the three least
    return bool(call["distinct"]) or (alone and call_of(call) in AS_OFTEN)
