"""The ways that rows take between two exchanges, each as one query over the relation `rows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from riverrun.columns import GONE, HIDDEN, PLACE
from riverrun.edges import Edge
from riverrun.forgetting.cipher import PREFIX, WITHOUT_VALUE
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.revealing import REVEAL
from riverrun.plan.building import call_of
from riverrun.plan.nodes import (
    Emitted,
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Select,
    SparkStep,
    Step,
    Union,
    Versions,
    Where,
    WithColumns,
    WithTime,
)
from riverrun.plan.rows import form_of
from riverrun.schema import column_list, in_range, literal, plain, quoted

Path = tuple[Edge, str | None]
"""Where rows come from, and the query; None passes them on as they are."""


def paths(node: Node) -> Iterator[Path]:
    """Every way from an origin's rows to this node."""
    match node:
        case ReadTopic():
            yield Edge("source", node.topic), None
        case Late():
            yield node.input.does.late_edge(node.number), None
        case Emitted():
            yield node.input.does.output_edge(node.output), None
        case Step():
            yield node.does.output_edge(), None
        case SparkStep():
            yield Edge("from spark", node.name), None
        case Union():
            for index, each in enumerate(node.inputs):
                for origin, query in paths(each):
                    yield origin, _member(node, index, relation_of(query))
        case KeyBy():
            yield from paths(node.input)
        case Where() | Select() | WithColumns() | Map() | Explode() | WithTime() | Versions():
            for origin, query in paths(node.input):
                yield origin, _stateless(node, _revealed(node, relation_of(query)))
        case _:
            assert_never(node)


def relation_of(query: str | None) -> str:
    """What stands after FROM for the rows of a path."""
    return f"({query})" if query else "rows"


def _member(node: Union, index: int, source: str) -> str:
    columns = column_list(node.schema.visible.names)
    sub = f"__sub * {len(node.inputs)} + {index} AS __sub"
    return f"SELECT {columns}, __at, __pos, {sub} FROM {source}"


def times(node: WithTime) -> Iterator[Path]:
    """The new times, and positions, of all rows that have one."""
    for origin, query in paths(node.input):
        at = f"TRY(({node.time})::TIMESTAMP)"
        yield origin, f"SELECT {at} AS __at, __pos, __sub FROM {relation_of(query)}"


def _stateless(
    node: Where | Select | WithColumns | Map | Explode | WithTime | Versions, source: str
) -> str:
    match node:
        case WithTime():
            at = f"TRY(({node.time})::TIMESTAMP)"
            missing = f"error({literal(f'no time: {plain(node.time)} gives none')})::TIMESTAMP"
            return f"SELECT * REPLACE (coalesce({at}, {missing}) AS __at) FROM {source}"
        case Where():
            return _where(node, source)
        case Select():
            return f"SELECT {_computed(node)}, {column_list(HIDDEN[form_of(node)])} FROM {source}"
        case WithColumns():
            known = [name for name, _ in node.columns if name in node.input.schema]
            kept = _sealed_again(node.reveals, known)
            return f"SELECT {kept}, {_computed(node)} FROM {source}"
        case Map():
            return _map(node, source)
        case Explode():
            return _explode(node, source)
        case Versions():
            query = node.table.versions(source)
            assert query is not None
            return query


def _revealed(node: Node, source: str) -> str:
    """Rows of which some personal columns can be read, and are there sealed, too."""
    names = getattr(node, "reveals", ())
    if not names:
        return source
    read = ", ".join(f"{_read(node, quoted(name))} AS {quoted(name)}" for name in names)
    kept = ", ".join(f"{quoted(name)} AS {sealed_name(name)}" for name in names)
    return f"(SELECT * REPLACE ({read}), {kept} FROM {source})"


def _read(node: Node, column: str) -> str:
    """Of a table it is only asked whether there is a value: that needs no key, so it is the same
    when a row is taken back."""
    if form_of(node) == "facts":
        return f"{REVEAL}({column})"
    gone = f"length({column}) = {WITHOUT_VALUE} AND starts_with({column}, {literal(PREFIX)})"
    return f"CASE WHEN NOT ({gone}) THEN {column} END"


def sealed_name(column: str) -> str:
    """What a sealed column is called beside the one that can be read."""
    return quoted(f"__sealed {column}")


def _sealed_again(names: tuple[str, ...], left_out: Sequence[str] = ()) -> str:
    """All columns but some, as they were before they were revealed."""
    gone = [*map(quoted, left_out), *map(sealed_name, names)]
    back = [f"{sealed_name(name)} AS {quoted(name)}" for name in names if name not in left_out]
    without = f" EXCLUDE ({', '.join(gone)})" if gone else ""
    return f"*{without} REPLACE ({', '.join(back)})" if back else f"*{without}"


def _computed(node: Select | WithColumns) -> str:
    """The columns of a node. A version that deletes has its key and nothing to compute with."""
    known = {quoted(name) for name in node.input.schema.names}
    known |= {sealed_name(name) for name in node.reveals}
    given = [
        # a column has been looked at before
        (name, sql, True) if sql in known
        else (name, in_range(sql, node.schema.type_of(name)), False)
        for name, sql in node.columns
    ]  # fmt: skip
    if form_of(node) != "versions":
        return ", ".join(f"({sql}) AS {quoted(name)}" for name, sql, _ in given)
    return ", ".join(
        f"({sql if same else f'CASE WHEN NOT {GONE} THEN ({sql}) END'}) AS {quoted(name)}"
        for name, sql, same in given
    )


def _where(node: Where, source: str) -> str:
    kept = _sealed_again(node.reveals)
    if form_of(node) != "versions":
        return f"SELECT {kept} FROM {source} WHERE ({node.condition})"
    # a version that does not hold the condition deletes the row of its key
    gone = f"CASE WHEN {GONE} THEN true ELSE NOT coalesce(({node.condition}), false) END"
    return f"SELECT {kept} FROM (SELECT * REPLACE ({gone} AS {GONE}) FROM {source})"


def _map(node: Map, source: str) -> str:
    # a list of one row or none: unlike a condition, DuckDB does not compute it twice
    made = f"unnest({call_of(node.function, node.input.schema)}) AS __made"
    columns = ", ".join(f"__made.{name} AS {name}" for name in map(quoted, node.schema.names))
    place = column_list(PLACE)
    return f"SELECT {columns}, {place} FROM (SELECT {made}, {place} FROM {source})"


def _explode(node: Explode, source: str) -> str:
    others = column_list(name for name in node.schema.names if name != node.column)
    column = quoted(node.column)
    # the place of an element within its list keeps rows of one record in order
    return (
        f"SELECT {others}{', ' if others else ''}unnest({column}) AS {column}, __at, __pos, "
        f"__sub * 1048576 + unnest(range(len({column}))) AS __sub FROM {source}"
    )
