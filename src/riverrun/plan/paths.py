"""The ways that rows take between two exchanges, each as one query over the relation `rows`."""

from __future__ import annotations

from collections.abc import Iterator

from riverrun.kernels.steps import PLACE
from riverrun.plan.derive import changes
from riverrun.plan.inputs import column_list
from riverrun.plan.nodes import (
    Emitted,
    Explode,
    KeyBy,
    Late,
    Node,
    Select,
    Source,
    SparkStep,
    StepNode,
    ToTable,
    Union,
    Where,
    WithColumns,
)
from riverrun.schema import literal, quoted

CHANGE_COLUMNS = ("__op", "__revision")
GONE = "__gone"
"""Whether a version of a row says that it is deleted."""
VERSION_COLUMNS = (*PLACE, GONE)

Path = tuple[str, str | None]
"""Where rows come from, and the query; None passes them on as they are."""


def paths(node: Node) -> Iterator[Path]:
    """Every way from an origin's rows to this node, as (origin, query)."""
    match node:
        case Source():
            yield f"source:{node.topic}", None
        case Late():
            yield f"late:{node.input.name}{'' if node.side == 'left' else '/right'}", None
        case Emitted():
            yield f"stream:{node.input.name}/{node.output}", None
        case _ if isinstance(node, StepNode):
            yield f"{'table' if changes(node) else 'stream'}:{node.name}", None
        case SparkStep():
            yield f"from_spark:{node.name}", None
        case Union():
            for index, each in enumerate(node.inputs):
                for origin, query in paths(each):
                    yield origin, _member(node, index, relation_of(query))
        case KeyBy():
            yield from paths(node.input)
        case _:
            for origin, query in paths(node.input):
                hidden = CHANGE_COLUMNS if changes(node) else PLACE
                yield origin, _stateless(node, relation_of(query), hidden)


def relation_of(query: str | None) -> str:
    """What stands after FROM for the rows of a path."""
    return f"({query})" if query else "rows"


def versioned(node: Node) -> ToTable | None:
    """The table of a topic or stream that this one is made of row by row, if it is."""
    while isinstance(node, Where | Select | WithColumns):
        node = node.input
    return node if isinstance(node, ToTable) else None


def versions(node: Node) -> Iterator[Path]:
    """The ways of a table's versions: whole rows with their time, and those that delete."""
    if isinstance(node, ToTable):
        hidden = (*PLACE, *((GONE,) if _tombstones(node) else ()))
        columns = column_list((*node.schema.visible.names, *hidden))
        condition = f"coalesce(({node.delete}), false)" if node.delete else "false"
        gone = "" if _tombstones(node) else f", {condition} AS {GONE}"
        for origin, query in paths(node.input):
            yield origin, f"SELECT {columns}{gone} FROM {relation_of(query)}{_with_key(node)}"
        return
    assert isinstance(node, Where | Select | WithColumns)
    for origin, query in versions(node.input):
        if isinstance(node, Where):
            gone = f"{GONE} OR NOT coalesce(({node.condition}), false)"
            yield origin, f"SELECT * REPLACE ({gone} AS {GONE}) FROM {relation_of(query)}"
        else:
            yield origin, _stateless(node, relation_of(query), VERSION_COLUMNS)


def _with_key(node: ToTable) -> str:
    """A row without a key fails; a record that has none does so when it is read."""
    if _tombstones(node):
        return ""
    missing = " ".join(
        f"WHEN {quoted(key)} IS NULL THEN error({literal(f'no key: {key} is null')})::BOOLEAN"
        for key in node.keys
    )
    return f" WHERE CASE {missing} ELSE true END"


def _tombstones(node: ToTable) -> bool:
    return isinstance(node.input, Source) and bool(node.input.table_key)


def _member(node: Union, index: int, source: str) -> str:
    columns = column_list(node.schema.visible.names)
    sub = f"__sub * {len(node.inputs)} + {index} AS __sub"
    return f"SELECT {columns}, __at, __pos, {sub} FROM {source}"


def _stateless(
    node: Where | Select | WithColumns | Explode, source: str, hidden: tuple[str, ...]
) -> str:
    if isinstance(node, Where):
        return f"SELECT * FROM {source} WHERE ({node.condition})"
    if isinstance(node, Select):
        columns = ", ".join(f"({sql}) AS {quoted(name)}" for name, sql in node.columns)
        return f"SELECT {columns}, {column_list(hidden)} FROM {source}"
    if isinstance(node, WithColumns):
        new = ", ".join(f"({sql}) AS {quoted(name)}" for name, sql in node.columns)
        known = [name for name, _ in node.columns if name in node.input.schema]
        kept = f"* EXCLUDE ({column_list(tuple(known))})" if known else "*"
        return f"SELECT {kept}, {new} FROM {source}"
    others = column_list(tuple(name for name in node.schema.names if name != node.column))
    column = quoted(node.column)
    # the place of an element within its list keeps rows of one record in order
    return (
        f"SELECT {others}{', ' if others else ''}unnest({column}) AS {column}, __at, __pos, "
        f"__sub * 1048576 + unnest(range(len({column}))) AS __sub FROM {source}"
    )
