"""What follows from a plan's nodes: what feeds them, in which form rows travel, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from riverrun.columns import RowForm
from riverrun.kernels.program import ReadTopic
from riverrun.plan.nodes import (
    Emitted,
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Output,
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


def inputs_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, ReadTopic):
        return ()
    return node.inputs if isinstance(node, Union | Step) else (node.input,)


def nodes_of(outputs: tuple[Output, ...]) -> list[Node]:
    """All nodes that lead to the outputs, each after those that feed it."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for each in inputs_of(node):
                visit(each)
            found[id(node)] = node

    for output in outputs:
        visit(output.input)
    return list(found.values())


def steps_of(outputs: tuple[Output, ...]) -> list[Step]:
    return [node for node in nodes_of(outputs) if isinstance(node, Step)]


def rewritten(outputs: tuple[Output, ...], change: Callable[[Node], Node]) -> tuple[Output, ...]:
    """The outputs with every node changed, each after those that feed it; what was shared still
    is."""
    made: dict[int, Node] = {}
    for node in nodes_of(outputs):
        made[id(node)] = change(_with_inputs(node, [made[id(each)] for each in inputs_of(node)]))
    return tuple(replace(output, input=made[id(output.input)]) for output in outputs)


def _with_inputs(node: Node, inputs: list[Node]) -> Node:
    if all(new is old for new, old in zip(inputs, inputs_of(node), strict=True)):
        return node
    if isinstance(node, Union | Step):
        return replace(node, inputs=tuple(inputs))
    return replace(node, input=inputs[0])  # type: ignore[arg-type]


def form_of(node: Node) -> RowForm:
    """How rows of the node travel: as facts of a stream, changes of a table, or its versions."""
    match node:
        case ReadTopic() | Emitted() | Late() | SparkStep() | Union() | Map():
            return "facts"
        case Versions():
            return "versions"
        case Step():
            return node.does.leaving.form
        case Where() | Select() | WithColumns() | KeyBy() | Explode() | WithTime():
            return form_of(node.input)
        case _:
            assert_never(node)


def changes(node: Node) -> bool:
    """Whether rows are changes of a table (`-` and `+`), not facts of a stream."""
    return form_of(node) == "changes"


def key_of(node: Node) -> tuple[str, ...]:
    """The columns of the key that rows of this node are written with."""
    match node:
        case ReadTopic():
            return (node.key,) if node.key else ()
        case KeyBy():
            return node.columns
        case Step():
            return node.does.leaving.key
        case Select() if form_of(node) != "facts":
            return renamed_key(node)
        case Emitted():
            return _still_there(node.input.does.keys, node.schema)
        case Late():
            return passed_on(node.input.inputs[node.number], node.schema)
        case Union():
            keys = {key_of(each) for each in node.inputs}
            return _still_there(keys.pop() if len(keys) == 1 else (), node.schema)
        case (
            Where() | Select() | WithColumns() | Map() | Explode() | WithTime() | SparkStep()
            | Versions()
        ):  # fmt: skip
            return passed_on(node.input, node.schema)
        case _:
            assert_never(node)


def renamed_key(node: Select) -> tuple[str, ...]:
    """The key of a table whose columns may have got other names."""
    names = {sql: name for name, sql in reversed(node.columns)}
    names |= {sql: name for name, sql in node.columns if sql == quoted(name)}
    return tuple(names[quoted(key)] for key in key_of(node.input))


def passed_on(rows: Node, schema: Schema) -> tuple[str, ...]:
    """The key of what comes in, if its columns are still there."""
    return _still_there(key_of(rows), schema)


def _still_there(key: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    return key if all(name in schema for name in key) else ()


def scattered(node: Node) -> bool:
    """Whether changes of one key may come from several pages, in any order."""
    while isinstance(node, Where | Select | WithColumns):
        node = node.input
    return isinstance(node, Step) and node.does.leaving.scattered


def table_of(node: Node) -> Step | None:
    """The table whose versions this one's rows are, row by row, if it has any."""
    while isinstance(node, Where | Select | WithColumns):
        node = node.input
    return node if isinstance(node, Step) and node.does.versions("rows") else None


def origins(node: Node) -> Iterator[Node]:
    """The sources and steps that a node's rows come from; itself, if it is one."""
    if isinstance(node, ReadTopic | Step):
        yield node
    else:
        for each in inputs_of(node):
            yield from origins(each)
