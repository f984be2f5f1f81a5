"""SQL expressions as DuckDB's own trees: read, looked through, changed, and written again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import duckdb

from riverrun.operators.match.clauses import Expression
from riverrun.operators.match.text import Text
from riverrun.schema import literal, quoted

Tree = dict[str, Any]
HEAD = "SELECT ("
NOWHERE = 1 << 62
"""DuckDB's place of what has none is beyond this."""
PLACES = ("place", "query_location")
"""Of a node: where it stands, which does not change what it says."""
MOST = 20_000
"""Texts and trees that are at hand: many rules say the same of their rows."""


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads=1; SET TimeZone='UTC'")
    return connection


@cache
def aggregates() -> frozenset[str]:
    """The names of DuckDB's aggregates."""
    query = "SELECT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    return frozenset(str(name) for (name,) in _duckdb().execute(query).fetchall())


def tree_of(source: Text, expression: Expression, columns: tuple[str, ...]) -> Tree:
    """Each node's `place` is where it stands in the source."""
    written = _Written(expression.text, list(range(len(expression.text) + 1)))
    if written.fails is not None:  # a column may be called by a word of SQL
        again = _Written(*_with_quotes(expression.text, columns))
        further = again.fails is None or again.fails > written.fails
        written = again if further else written
    if written.fails is not None:
        fact = f"an expression cannot be read: {written.found['error_message']}"
        raise source.error(fact, expression.begin + written.fails)
    nodes_found = [each["node"] for each in written.found["statements"]]
    if len(nodes_found) != 1 or len(nodes_found[0]["select_list"]) != 1:
        raise source.error("an expression gives one value", expression.begin)
    tree: Tree = nodes_found[0]["select_list"][0]
    for node in nodes(tree):
        at = node.get("query_location", NOWHERE)
        node["place"] = expression.begin + written.place(0 if at >= NOWHERE else at)
    return tree


class _Written:
    """An expression as DuckDB reads it."""

    def __init__(self, text: str, origins: list[int]) -> None:
        """`origins`: where each letter of the text stands in the expression."""
        self.text, self.query, self.origins = text, f"{HEAD}{text}\n)", origins
        self.found = _parsed(self.query)

    def place(self, at: int) -> int:
        """DuckDB counts bytes of the query."""
        characters = len(self.query.encode()[:at].decode(errors="ignore")) - len(HEAD)
        return self.origins[min(max(characters, 0), len(self.origins) - 1)]

    @property
    def fails(self) -> int | None:
        """Where it cannot be read; if it ends too early, its last sign."""
        if not self.found.get("error"):
            return None
        at = self.place(int(self.found.get("position") or 0))
        return at if at < self.origins[-1] else self.origins[max(len(self.text.rstrip()) - 1, 0)]


def _parsed(query: str) -> Tree:
    found: Tree = json.loads(_serialized(query))
    return found


@lru_cache(maxsize=MOST)
def _serialized(query: str) -> str:
    answer = _duckdb().execute(f"SELECT json_serialize_sql({literal(query)})").fetchall()
    return str(answer[0][0])


def _with_quotes(text: str, columns: tuple[str, ...]) -> tuple[str, list[int]]:
    """The text with bare names of columns in quotes, and where each letter of it stood."""
    made, origins, known = "", [], {name.lower() for name in columns}
    for token in re.finditer(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|.", text, re.DOTALL):
        bare = token[0].lower() in known and not re.match(r"\s*\(", text[token.end() :])
        shown = quoted(token[0]) if bare else token[0]
        made += shown
        origins += [token.start() + (0 if bare else n) for n in range(len(shown))]
    return made, [*origins, len(text)]


@cache
def _statement() -> str:
    made = _duckdb().execute(f"SELECT json_serialize_sql({literal('SELECT 1')})").fetchall()
    return str(made[0][0])


def written(tree: Tree) -> str:
    """The SQL of a tree."""
    statement = json.loads(_statement())
    statement["statements"][0]["node"]["select_list"] = [
        changed(tree, lambda node: {k: v for k, v in node.items() if k not in PLACES})
    ]
    return _deserialized(json.dumps(statement))


@lru_cache(maxsize=MOST)
def _deserialized(statement: str) -> str:
    query = f"SELECT json_deserialize_sql({literal(statement)}::JSON)"
    return str(_duckdb().execute(query).fetchall()[0][0]).removeprefix("SELECT ")


def nodes(tree: Any) -> Iterator[Tree]:
    """The nodes of a tree, each before its parts."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for part in tree.values():
            yield from nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def changed(tree: Any, change: Callable[[Tree], Tree]) -> Any:
    """The tree with every node changed, its parts first."""
    if isinstance(tree, dict):
        made = {name: changed(part, change) for name, part in tree.items()}
        return change(made) if "class" in made else made
    return [changed(part, change) for part in tree] if isinstance(tree, list) else tree


def column(name: str, place: int = 0) -> Tree:
    """A node that is a column."""
    return {
        "class": "COLUMN_REF",
        "type": "COLUMN_REF",
        "alias": "",
        "column_names": [name],
        "place": place,
    }


def constant(text: str, place: int = 0) -> Tree:
    """A node that is a text."""
    return {
        "class": "CONSTANT",
        "type": "VALUE_CONSTANT",
        "alias": "",
        "literal": {"kind": "STRING", "text": text},
        "place": place,
    }


def call_of(tree: Tree) -> str:
    """The name of the function that a node calls; empty if it calls none by its name."""
    if tree["class"] != "FUNCTION" or tree["is_operator"]:
        return ""
    return str(tree["function_name"]).lower()


def arguments(tree: Tree) -> list[Tree]:
    return [each["expression"] for each in tree["arguments"]]


def conjuncts(tree: Tree) -> list[Tree]:
    """What all must hold for the whole to hold."""
    if tree["type"] != "CONJUNCTION_AND":
        return [tree]
    return [each for child in tree["children"] for each in conjuncts(child)]


def plain_column(tree: Tree) -> str | None:
    """The name of the column that the whole tree is."""
    names = tree.get("column_names", [])
    return str(names[0]) if tree["class"] == "COLUMN_REF" and len(names) == 1 else None


def value_of(text: str) -> Any:
    """What a constant expression is."""
    return _duckdb().execute(f"SELECT ({text})").fetchall()[0][0]


def type_of_constant(text: str) -> str:
    return str(_duckdb().execute(f"DESCRIBE SELECT ({text})").fetchall()[0][1])
