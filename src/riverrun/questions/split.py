"""What pages are asked, and what makes one answer of theirs: the same as of the whole table.

Aggregates are made in pages and merged. Of any other query pages send rows, as few as is safe:
those that its condition holds for, the first ones by its order, the columns that it names. The
query itself is then asked of all that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Any

import duckdb

from riverrun.errors import InputError
from riverrun.kernels.questions import sandbox
from riverrun.operators.match.trees import Tree, nodes
from riverrun.questions.partial import Partial, as_often, partial
from riverrun.questions.select import (
    NAMES,
    Select,
    Whole,
    described,
    expressions,
    over_rows,
    parsed,
    select_of,
    tables_in,
    written,
)
from riverrun.schema import Schema, first_line, quoted, schema_of

LONGEST = 8_000
"""Letters of a question: it travels to every page."""


@dataclass(frozen=True)
class Split:
    page: str
    """The query of pages, over their `rows`."""
    final: str
    """The query over what they send."""
    sent: Schema
    """What they send."""
    answer: Schema
    """The columns of the answer."""
    step: str


@lru_cache(maxsize=256)
def split(sql: str, step: str, schema: Schema) -> Split:
    """Checks a question, and says how it is asked. Nothing is asked yet."""
    if schema.taken("at"):
        sql = schema.expression(sql)  # a word of SQL, too
    names = frozenset({*NAMES, step.lower()})
    wanted = _columns(sql, step, schema, names)
    select = select_of(sql, schema, names)
    if select is not None and (made := _partial(select, wanted)) is not None:
        return Split(made.page, made.final, made.sent, _named(wanted), step)
    page, sent = ("FROM rows", schema) if select is None else _pruned(select)
    return Split(page, sql, sent, _named(wanted), step)


def _named(columns: list[tuple[str, str]]) -> Schema:
    """With names that differ: a column may be asked for twice."""
    found: dict[str, str] = {}
    for name, type in columns:
        taken = {each.lower() for each in found}
        others = (f"{name}_{n}" for n in count(1))
        found[
            next(
                each for each in (name, *islice(others, len(columns))) if each.lower() not in taken
            )
        ] = type
    return schema_of(list(found.items()))


def _columns(sql: str, step: str, schema: Schema, names: frozenset[str]) -> list[tuple[str, str]]:
    """What the answer will have; an InputError for what cannot be asked."""
    if len(sql) > LONGEST:
        raise InputError(
            "the question is too long", got=f"{len(sql):,} letters, {LONGEST:,} at most"
        )
    _require_select(sql)
    try:
        found = described(sql, schema, *NAMES, step)
    except duckdb.Error as error:
        raise _explained(error, sql, step, schema) from error
    others = set(tables_in(parsed(sql)))
    if not others & names:
        raise InputError(
            "the question does not read the table", got=sql, hint=f"SELECT … FROM {quoted(step)}"
        )
    return found


def _require_select(sql: str) -> None:
    with sandbox() as connection:
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as error:
            raise InputError("the question cannot be read", got=first_line(error)) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("a question is one SELECT", got=sql)
    if parsed(sql).get("error"):
        raise InputError("a question is one SELECT", got=sql)


def _explained(error: duckdb.Error, sql: str, step: str, schema: Schema) -> InputError:
    message = first_line(error)
    if 'Referenced column "' in message:
        name = message.split('"')[1]
        return InputError(
            f"there is no column {name!r}", where=step, got=sql, hint=schema.suggestion(name)
        )
    if "Table with name" in message:
        return InputError(
            "a question reads one table",
            got=message,
            hint=f"it is called {quoted(step)}, {NAMES[0]} or {NAMES[1]}",
        )
    return InputError("the question cannot be answered", where=step, got=message)


def _partial(select: Select, wanted: list[tuple[str, str]]) -> Partial | None:
    try:
        made = partial(select, [name for name, _ in wanted])
        return made if described(made.final, made.sent) == wanted else None
    except (Whole, duckdb.Error):
        return None


def _pruned(select: Select) -> tuple[str, Schema]:
    """Rows that are enough for the query, and no others where that is sure."""
    node, where = select.node, select.node["where_clause"]
    columns = _needed(select)
    holds = where if where and select.of_rows(where) else None
    first = _first(select) if holds or not where else []
    once = not first and _same_however_often(select, columns)
    page = over_rows(node) | {
        "select_list": expressions(*map(quoted, columns.names)),
        "where_clause": holds, "having": None, "qualify": None,
        "modifiers": [*first, *([ONCE] if once else [])],
        "group_expressions": [], "group_sets": [], "aggregate_handling": "STANDARD_HANDLING",
    }  # fmt: skip
    return written(page), columns


ONCE: Tree = {"type": "DISTINCT_MODIFIER", "distinct_on_targets": []}


def _needed(select: Select) -> Schema:
    """The columns that are named, and perhaps others."""
    found: set[str] = set()
    all_of_them = {id(each["expression"]) for each in select.orders}  # ORDER BY ALL
    for each in nodes(select.node):
        if each["class"] == "STAR" and id(each) not in all_of_them:
            return select.schema
        if each["class"] == "COLUMN_REF":
            names = [name.lower() for name in each["column_names"]]
            if names[0] in select.table and len(names) == 1:  # a row as one value
                return select.schema
            found |= {*names}
    names = [name for name in select.schema.names if name.lower() in found]
    return select.schema.only(tuple(names or select.schema.names[:1]))


def _same_however_often(select: Select, columns: Schema) -> bool:
    """Whether rows that are there several times need to be there once."""
    if select.windows or any(t in c.type for c in columns.columns for t in ("FLOAT", "DOUBLE")):
        return False  # 0.0 and -0.0 would be the same row
    if select.groups:
        return all(map(as_often, select.aggregated))
    return any(not each["distinct_on_targets"] for each in select.modifiers("DISTINCT_MODIFIER"))


def _first(select: Select) -> list[Tree]:
    """The order and the limit of each page, if a row beyond them cannot be in the answer."""
    limits = select.modifiers("LIMIT_MODIFIER")
    if len(limits) != 1 or len(select.node["modifiers"]) > 1 + bool(select.orders):
        return []
    if select.groups or select.windows or limits[0]["limit_type"] != "ROW_COUNT":
        return []
    try:
        count = _number(limits[0]["limit"]) + _number(limits[0]["offset"])
        orders = [{**each, "expression": _order(select, each)} for each in select.orders]
    except Whole:
        return []
    limit = {**limits[0], "limit": expressions(str(count))[0], "offset": None}
    return [*([{"type": "ORDER_MODIFIER", "orders": orders}] if orders else []), limit]


def _number(tree: Any) -> int:
    if tree is None:
        return 0
    if tree["class"] != "CONSTANT" or tree["literal"].get("kind") != "INTEGER":
        raise Whole("the limit is worked out")
    return int(tree["literal"]["text"])


def _order(select: Select, order: Tree) -> Tree:
    """What rows are ordered by, in their own columns. An alias comes before a column."""
    by = order["expression"]
    found = select.item(by) or select.alias(by)
    if found is None and select.hides(by):
        raise Whole("it is not clear what a name means")
    found = found or by
    if not select.of_rows(found) or select.calls(found):
        raise Whole("it is not worked out from a row")
    return {**found, "alias": ""}
