"""Expressions that come while a job runs make no values of any size."""

from __future__ import annotations

from riverrun.operators.match.text import Text
from riverrun.operators.match.trees import Tree, nodes

GROWING = {"repeat", "range", "generate_series", "list_resize", "array_resize", "lpad", "rpad"}
GROWING |= {"format", "printf", "bar", "bitstring", "list_reduce", "array_reduce", "reduce"}
"""Functions that make a value of any size from a small one: one expression would take all memory,
in every page, and again when the job is started again."""
REPLACING = {"replace", "regexp_replace"}
"""What these put in is a constant: `replace(x, 'a', x)` grows with the square of the row."""


def require_bounded(source: Text, tree: Tree) -> None:
    """Before anything is evaluated, which constants are when their type is looked for."""
    for node in nodes(tree):
        name = str(node.get("function_name", "")).lower()
        if name in GROWING:
            raise source.error(
                f"{name}() cannot be used here",
                node["place"],
                "it makes values of any size; compute it in the program, as a column",
            )
        if name in REPLACING and not _puts_in_a_constant(node):
            raise source.error(
                f"{name}() puts in a constant here",
                node["place"],
                "else it makes values of any size; compute it in the program, as a column",
            )


def _puts_in_a_constant(node: Tree) -> bool:
    """The third argument; of `x.replace('a', 'b')`, the second."""
    place = 1 if node["schema"] or node["catalog"] else 2
    given = node["arguments"][place : place + 1]
    return all(each["expression"]["class"] == "CONSTANT" for each in given)
