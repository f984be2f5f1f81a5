"""One SELECT over one table, read by DuckDB's own parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import duckdb

from riverrun.kernels.questions import TABLE, asking, sandbox
from riverrun.kernels.typed import columns_of
from riverrun.operators.match.trees import Tree, aggregates, call_of, changed, nodes
from riverrun.schema import Schema, literal

NAMES = (TABLE, "this")
"""What the table is called beside its step's name."""
PLACES = ("query_location", "query_location_length")


class Whole(Exception):
    """A query that needs rows, not parts: why is for whoever reads the code."""


def parsed(sql: str) -> Tree:
    """The tree of a query; `error` in it says what is wrong."""
    found: Tree = json.loads(_run(f"SELECT json_serialize_sql({literal(sql)})"))
    return found


def expressions(*texts: str) -> list[Tree]:
    """The trees of expressions of ours."""
    if not texts:
        return []
    found = parsed(f"SELECT {', '.join(texts)}")["statements"][0]["node"]["select_list"]
    return list(found)


def written(node: Tree) -> str:
    """The SQL of a query's tree."""
    statement = {"error": False, "statements": [{"node": node, "named_param_map": []}]}
    return _run(f"SELECT json_deserialize_sql({literal(json.dumps(statement))}::JSON)")


def _run(query: str) -> str:
    with sandbox() as connection:
        return str(connection.execute(query).fetchall()[0][0])


@cache
def empty(schema: Schema) -> Any:
    """A table without rows, as a page has it."""
    return columns_of(schema).frame([]).to_arrow()


def described(sql: str, schema: Schema, *names: str) -> list[tuple[str, str]]:
    """The columns that a query over a table of these columns gives, with their types."""
    with asking(empty(schema), schema, *names) as connection:
        found = connection.sql(sql)
        if found is None:
            raise duckdb.Error("it gives no rows")
        types = ("INTEGER" if str(each) == '"NULL"' else str(each) for each in found.types)
        return list(zip(found.columns, types, strict=True))


def canonical(tree: Tree, table: frozenset[str] = frozenset()) -> str:
    """A text that two trees share if they mean the same."""

    def plain(node: Tree) -> Tree:
        made = {k: v for k, v in node.items() if k not in (*PLACES, "alias")}
        if made["class"] == "COLUMN_REF":
            made["column_names"] = [n.lower() for n in unqualified(node, table)]
        return made

    return json.dumps(changed(tree, plain), sort_keys=True)


def unqualified(ref: Tree, table: frozenset[str]) -> list[str]:
    """A column's name, and the fields of it that are named."""
    names = list(ref["column_names"])
    return names[1:] if len(names) > 1 and names[0].lower() in table else names


@cache
def _stable() -> frozenset[str]:
    """Functions that give the same for the same values, wherever and whenever they are called."""
    with sandbox() as connection:
        query = "SELECT lower(function_name), stability FROM duckdb_functions()"
        found = connection.execute(query).fetchall()
    return frozenset(n for n, _ in found) - {n for n, kind in found if kind != "CONSISTENT"}


@dataclass(frozen=True)
class Select:
    """A SELECT that reads the table and nothing else, once."""

    node: Tree
    schema: Schema

    @cached_property
    def table(self) -> frozenset[str]:
        """What its columns may be qualified with."""
        source = self.node["from_table"]
        return frozenset({str(source["alias"] or source["table_name"]).lower()})

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset(name.lower() for name in self.schema.names)

    @property
    def items(self) -> list[Tree]:
        return list(self.node["select_list"])

    @cached_property
    def aliases(self) -> dict[str, Tree]:
        return {each["alias"].lower(): each for each in self.items if each["alias"]}

    def modifiers(self, kind: str) -> list[Tree]:
        return [each for each in self.node["modifiers"] if each["type"] == kind]

    @cached_property
    def orders(self) -> list[Tree]:
        return [o for each in self.modifiers("ORDER_MODIFIER") for o in each["orders"]]

    def calls(self, *trees: Any) -> list[Tree]:
        """The aggregates in them."""
        every = [node for tree in trees for node in nodes(tree)]
        return [node for node in every if call_of(node) in aggregates()]

    @cached_property
    def aggregated(self) -> list[Tree]:
        """The aggregates of the whole."""
        return self.calls(self.items, self.node["having"], self.orders)

    @property
    def groups(self) -> bool:
        node = self.node
        forced = node["aggregate_handling"] != "STANDARD_HANDLING"
        return bool(node["group_expressions"] or self.aggregated or forced or node["having"])

    @cached_property
    def windows(self) -> bool:
        return bool(self.node["qualify"]) or any(n["class"] == "WINDOW" for n in nodes(self.node))

    def refs(self, tree: Any) -> Iterator[str]:
        """The columns in a tree, in small letters and without the table's name."""
        for node in nodes(tree):
            if node["class"] == "COLUMN_REF":
                yield unqualified(node, self.table)[0].lower()

    def of_rows(self, tree: Any) -> bool:
        """Whether it can be worked out from a row alone, the same in every page."""
        return set(self.refs(tree)) <= self.columns and not any(
            node["class"] in ("STAR", "SUBQUERY", "WINDOW", "PARAMETER", "DEFAULT")
            for node in nodes(tree)
        )

    def alias(self, tree: Tree) -> Tree | None:
        """The item that a bare name stands for, if it is one's alias."""
        if tree["class"] != "COLUMN_REF" or len(tree["column_names"]) != 1:
            return None
        return self.aliases.get(tree["column_names"][0].lower())

    def item(self, tree: Tree) -> Tree | None:
        """The item that a number stands for."""
        if tree["class"] != "CONSTANT" or tree["literal"].get("kind") != "INTEGER":
            return None
        place = int(tree["literal"]["text"])
        if not 1 <= place <= len(self.items):
            raise Whole("no such place")
        return self.items[place - 1]

    def hides(self, tree: Any) -> bool:
        """Whether a name in it is a column's, and the alias of something else."""
        return any(
            name in self.columns and not self._is_column(self.aliases[name], name)
            for name in self.refs(tree)
            if name in self.aliases
        )

    def _is_column(self, item: Tree, name: str) -> bool:
        return item["class"] == "COLUMN_REF" and [
            each.lower() for each in unqualified(item, self.table)
        ] == [name]


def select_of(sql: str, schema: Schema, names: frozenset[str]) -> Select | None:
    """None if it reads the table in another way, or with more than its rows."""
    node = parsed(sql)["statements"][0]["node"]
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"] or node["sample"]:
        return None
    source = node["from_table"]
    if source["type"] != "BASE_TABLE" or source["table_name"].lower() not in names:
        return None
    if source["sample"] or source["column_name_alias"] or source["at_clause"]:
        return None
    select = Select(node, schema)
    if select.table & select.columns or any(_unsure(each) for each in nodes(node)):
        return None
    return select


def _unsure(node: Tree) -> bool:
    """What looks at more than rows, or gives something else each time."""
    if node["class"] in ("SUBQUERY", "PARAMETER"):
        return True
    return node["class"] == "FUNCTION" and str(node["function_name"]).lower() not in _stable()


def over_rows(node: Tree) -> Tree:
    """The query over the table as pages call it; its columns may be qualified as they were."""
    source = node["from_table"]
    called = {"alias": source["alias"] or source["table_name"], "table_name": TABLE}
    plain = {"schema_name": "", "catalog_name": "", "qualified_name": {"path": [TABLE]}}
    return {**node, "from_table": {**source, **called, **plain}}


def tables_in(tree: Any) -> Iterator[str]:
    """The tables that a query names, in small letters."""
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            yield str(tree["table_name"]).lower()
        for part in tree.values():
            yield from tables_in(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from tables_in(part)
