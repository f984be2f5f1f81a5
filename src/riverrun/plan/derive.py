"""What follows from a plan's nodes: what feeds them, whether they are tables, and their keys."""

from __future__ import annotations

from collections.abc import Callable

from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Emitted,
    Explode,
    Join,
    KeyBy,
    Late,
    Node,
    Output,
    Rank,
    Select,
    Settle,
    Source,
    StepNode,
    ToTable,
    Union,
    Where,
    WithColumns,
)
from riverrun.program import EVENT, Side


def inputs_of(node: Node) -> tuple[Node, ...]:
    match node:
        case Source():
            return ()
        case Union():
            return node.inputs
        case Join():
            return node.left, node.right
        case _:
            return (node.input,)


def nodes_of(
    outputs: tuple[Output, ...], feeding: Callable[[Node], tuple[Node, ...]] = inputs_of
) -> list[Node]:
    """All nodes that lead to the outputs, each after those that feed it."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for each in feeding(node):
                visit(each)
            found[id(node)] = node

    for output in outputs:
        visit(output.input)
    return list(found.values())


def has_late_rows(node: StepNode) -> bool:
    return bool(late_sides(node))


def late_sides(node: StepNode) -> tuple[Side, ...]:
    """The inputs of a step whose rows can be late."""
    match node:
        case Aggregate():
            return () if node.window.kind == "all" else ("left",)
        case Deduplicate():
            return ("left",)
        case Join(kind="streams"):
            return ("left", "right")
        case Join(kind="versions"):
            return ("left",)
        case _:
            return ()


def changes(node: Node) -> bool:
    """Whether rows are changes of a table (`-` and `+`), not facts of a stream."""
    match node:
        case Aggregate() | ToTable() | Rank():
            return True
        case Settle():
            return not node.facts
        case Join():
            return node.kind == "tables" or node.corrections
        case Where() | Select() | WithColumns() | KeyBy() | Explode():
            return changes(node.input)
        case _:
            return False


def key_of(node: Node) -> tuple[str, ...]:
    """The columns of the key that rows of this node are written with."""
    found: tuple[str, ...]
    match node:
        case Source():
            found = (node.key,) if node.key else ()
        case Aggregate():
            found = node.table_key
        case KeyBy():
            found = node.columns
        case ToTable() | Settle():
            found = node.keys
        case Rank():
            found = tuple(dict.fromkeys((*node.keys, *key_of(node.input))))
        case Join(kind="tables"):
            found = _joined_key(node)
        case Join(corrections=True):
            found = (EVENT,)
        case _:
            found = _passed_on(node)
    return found


def _passed_on(node: Node) -> tuple[str, ...]:
    """The key of what comes in, if it is still there."""
    if isinstance(node, Emitted):
        key = node.input.keys
    elif isinstance(node, Late):
        key = key_of(inputs_of(node.input)[0 if node.side == "left" else 1])
    elif isinstance(node, Join):
        key = key_of(node.left)
    else:
        keys = {key_of(each) for each in inputs_of(node)}
        key = keys.pop() if len(keys) == 1 else ()
    return key if all(name in node.schema for name in key) else ()


def _joined_key(join: Join) -> tuple[str, ...]:
    """What tells the rows of a joined table apart."""
    mine, theirs = key_of(join.left), key_of(join.right)
    renamed = dict(join.right_names) | {
        right: left for left, right in join.on if left in join.shared
    }
    theirs_here = tuple(renamed[name] for name in theirs)
    if join.how in ("inner", "left") and set(theirs) <= {right for _, right in join.on}:
        return mine
    if join.how in ("inner", "right") and set(mine) <= {left for left, _ in join.on}:
        return theirs_here
    return tuple(dict.fromkeys((*mine, *theirs_here)))


def settled(node: Node) -> bool:
    """Whether all changes of a key are made in one page, so that they leave in their order."""
    match node:
        case Where() | Select() | WithColumns():
            return settled(node.input)
        case Join(kind="tables"):
            return {left for left, _ in node.on} <= set(_joined_key(node))
        case _:
            return True
