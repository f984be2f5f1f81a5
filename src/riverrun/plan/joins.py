"""How rows enter a join: both sides under the names of the result, with keys of one name."""

from __future__ import annotations

from collections.abc import Iterator

from riverrun.clock import Pace
from riverrun.kernels.steps import PLACE
from riverrun.plan.derive import changes, inputs_of, key_of
from riverrun.plan.inputs import NO_WINDOW, WINDOW_OF_ROW
from riverrun.plan.nodes import Join, Node, ToTable
from riverrun.plan.paths import (
    CHANGE_COLUMNS,
    VERSION_COLUMNS,
    Path,
    paths,
    relation_of,
    versioned,
    versions,
)
from riverrun.program import Joining, Side
from riverrun.schema import quoted

Common = tuple[str, tuple[str, ...], dict[str, Pace], int]


def joining(
    step: Join, common: Common, right_paces: dict[str, Pace], topics: tuple[str, ...]
) -> Joining:
    shared = {left: key for key, (left, _) in zip(step.keys, step.on, strict=True)}
    shared = {name: shared[name] for name in step.shared}
    return Joining(
        *common,
        kind=step.kind,
        how=step.how,
        shared=tuple((key, name) for name, key in shared.items()),
        left_columns=tuple(n for n in step.left.schema.visible.names if n not in shared),
        right_columns=tuple(name for _, name in step.right_names),
        schema=step.schema.visible,
        entered_left=_entered(step, "left"),
        entered_right=_entered(step, "right"),
        left_identity=_identity(step, "left"),
        right_identity=_identity(step, "right"),
        before=step.before,
        after=step.after,
        condition=step.condition,
        time=step.time,
        history=step.history,
        corrections=step.corrections,
        version=step.version,
        replicate=replicated(step),
        right_paces=right_paces,
        topics=topics,
        at=str(step.at),
        on_error=step.on_error,
    )


def replicated(step: Join) -> bool:
    """Whether the whole table is in every page."""
    table = versioned(step.right)
    return step.kind == "latest" and table is not None and table.replicate


def _identity(step: Join, side: Side) -> tuple[str, ...]:
    """What tells the rows of a key apart: the table's key, without what the join is on."""
    place = 0 if side == "left" else 1
    on = {pair[place] for pair in step.on}
    names = dict(step.right_names) if side == "right" else {}
    key = key_of(step.left if side == "left" else step.right)
    return tuple(names.get(name, name) for name in key if name not in on)


def _entered(step: Join, side: Side) -> tuple[tuple[str, str], ...]:
    """The columns of a side before the join, and what they are in it."""
    place, node = (0, step.left) if side == "left" else (1, step.right)
    shared = {pair[place]: key for key, pair in zip(step.keys, step.on, strict=True)
              if pair[0] in step.shared}  # fmt: skip
    names = dict(step.right_names) if side == "right" else {}
    return tuple((n, shared.get(n, names.get(n, n))) for n in node.schema.visible.names)


def into_join(step: Join) -> Iterator[tuple[Side, str, str]]:
    for origin, query in paths(step.left):
        hidden: tuple[str, ...] = CHANGE_COLUMNS if changes(step.left) else PLACE
        yield "left", origin, _side(step, "left", query, hidden)
    found, hidden = _right_rows(step)
    for origin, query in found:
        yield "right", origin, _side(step, "right", query, hidden)


def _right_rows(step: Join) -> tuple[Iterator[Path], tuple[str, ...]]:
    if _table_by_versions(step):
        return versions(step.right), VERSION_COLUMNS
    return paths(step.right), CHANGE_COLUMNS if changes(step.right) else PLACE


def _table_by_versions(step: Join) -> ToTable | None:
    """The table whose versions the join takes: it needs no step that keeps the latest ones."""
    table = versioned(step.right)
    if table is None or step.kind not in ("versions", "latest"):
        return None
    return table if step.kind == "versions" or table.order == "position" else None


def rows_from(node: Node) -> tuple[Node, ...]:
    """What feeds a node, without the tables that it does not need to be kept."""
    if isinstance(node, Join) and (table := _table_by_versions(node)):
        return node.left, table.input
    return inputs_of(node)


def _side(step: Join, side: Side, query: str | None, hidden: tuple[str, ...]) -> str:
    place = 0 if side == "left" else 1
    node: Node = step.left if side == "left" else step.right
    keys = [
        f"CAST({quoted(pair[place])} AS {type}) AS {key}"
        for key, pair, type in zip(step.keys, step.on, step.types, strict=True)
    ]
    names = dict(step.right_names)
    if side == "left":
        names = {n: n for n in node.schema.visible.names if n not in step.shared}
    columns = [f"{quoted(name)} AS {quoted(made)}" for name, made in names.items()]
    window = WINDOW_OF_ROW if not changes(node) else NO_WINDOW
    chosen = ", ".join([*keys, *columns, *map(quoted, hidden), window])
    source = relation_of(query)
    kept = step.how in (side, "full") or (side == "right" and step.kind == "versions")
    present = " AND ".join(f"{quoted(pair[place])} IS NOT NULL" for pair in step.on)
    return f"SELECT {chosen} FROM {source}{'' if kept else f' WHERE {present}'}"
