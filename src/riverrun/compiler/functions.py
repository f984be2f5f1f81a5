"""The functions of one's own that a plan calls: they travel with the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

from riverrun.errors import ProgramError
from riverrun.kernels.functions import Function
from riverrun.plan.nodes import Map, Node, Output, Step, Where
from riverrun.plan.rows import nodes_of


def functions_of(outputs: tuple[Output, ...]) -> tuple[Function, ...]:
    found: dict[str, Function] = {}
    for node in nodes_of(outputs):
        for function in (*_handed(node), *_named(node)):
            other = found.setdefault(function.name.lower(), function)
            if other is not function:
                raise ProgramError(
                    f"two functions are called {function.name!r}",
                    where=function.at,
                    got=f"the other is at {other.at}",
                    hint="give one another name",
                )
    return tuple(found.values())


def _handed(node: Node) -> tuple[Function, ...]:
    """What a step was given as an object."""
    if isinstance(node, Step):
        return node.does.functions
    if isinstance(node, Map):
        return (node.function,)
    return (node.function,) if isinstance(node, Where) and node.function else ()


def _named(node: Node) -> Iterator[Function]:
    """What the node's expressions call, of what its line sees."""
    if not node.at.visible:
        return
    own = (each.name for each in fields(node) if each.name not in ("input", "inputs"))
    # a line break of an expression is no part of the name behind it
    text = re.sub(r"\\[nrtfv]", " ", " ".join(repr(getattr(node, name)) for name in own))
    for name, function in node.at.visible.items():
        if re.search(rf'\b{name}"?\s*\(', text, re.IGNORECASE):
            yield function
