"""Where a variable of many rules can be: thresholds as sorted arrays, sets of rules as bits.

A condition on a row alone is taken apart: what names no parameter is computed once for all rules;
`value > $limit` and the like are looked up among the limits of all rules at once. The rest is left
to those few rows of keys and rules that pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from riverrun.errors import Location
from riverrun.kernels import sql
from riverrun.operators.match.clauses import Expression
from riverrun.operators.match.text import Text
from riverrun.operators.match.trees import Tree, conjuncts, nodes, plain_column, tree_of, written
from riverrun.schema import Schema

Sign = Literal["<", "<=", ">", ">=", "="]
Kind = Literal["whole", "real", "text"]
SIGNS: dict[str, tuple[Sign, Sign]] = {
    "COMPARE_EQUAL": ("=", "="),
    "COMPARE_LESSTHAN": ("<", ">"),
    "COMPARE_LESSTHANOREQUALTO": ("<=", ">="),
    "COMPARE_GREATERTHAN": (">", "<"),
    "COMPARE_GREATERTHANOREQUALTO": (">=", "<="),
}
"""Comparisons, as they are read and with their sides exchanged."""
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


@dataclass(frozen=True)
class Atom:
    """A value of the row next to a parameter."""

    value: str
    """SQL over the row."""
    column: str | None
    """The column that it is, if it is one."""
    sign: Sign
    parameter: str
    kind: Kind


@dataclass(frozen=True)
class Filter:
    """The condition of a variable on a row alone, taken apart."""

    shared: tuple[str, ...] = ()
    """What names no parameter."""
    atoms: tuple[Atom, ...] = ()
    rest: tuple[str, ...] = ()


def filter_of(
    condition: str | None, schema: Schema, parameters: dict[str, str], at: Location
) -> Filter:
    if condition is None:
        return Filter()
    tree = tree_of(Text(condition, at), Expression(condition, 0), schema.names)
    shared, rest = [], []
    atoms: list[Atom] = []
    for part in conjuncts(tree):
        if not _named(part, parameters):
            shared.append(written(part))
        elif found := _atoms(part, schema, parameters, at):
            atoms += found
        else:
            rest.append(written(part))
    return Filter(tuple(shared), tuple(atoms), tuple(rest))


def _named(tree: Tree, parameters: dict[str, str]) -> set[str]:
    """The parameters in a part of a condition."""
    return {name for node in nodes(tree) if (name := plain_column(node)) in parameters}


def _atoms(part: Tree, schema: Schema, parameters: dict[str, str], at: Location) -> list[Atom]:
    """The comparisons with a parameter that a part is; none if it is anything else."""
    sides: list[tuple[Tree, Any, Sign]] = []
    if part["type"] == "COMPARE_BETWEEN":
        sides = [(part["input"], part["lower"], ">="), (part["input"], part["upper"], "<=")]
    elif part["type"] in SIGNS:
        sign, exchanged = SIGNS[part["type"]]
        if plain_column(part["right"]) in parameters:
            sides = [(part["left"], part["right"], sign)]
        else:
            sides = [(part["right"], part["left"], exchanged)]
    found = []
    for value, limit, sign in sides:
        name = plain_column(limit)
        if name not in parameters or _named(value, parameters):
            return []
        text = written(value)
        kind = _kind(sql.type_of(text, schema, at), parameters[str(name)], sign)
        if kind is None:
            return []
        found.append(Atom(text, plain_column(value), sign, str(name), kind))
    return found


def _kind(value: str, limit: str, sign: Sign) -> Kind | None:
    """How both sides are compared, as DuckDB does; None if it is left to it."""
    if value == limit == "VARCHAR" and sign == "=":
        return "text"
    if value in WHOLE and limit == "BIGINT":
        return "whole"
    real = (value in (*WHOLE, "FLOAT", "DOUBLE") and limit == "DOUBLE") or (
        value == "DOUBLE" and limit == "BIGINT"
    )
    return "real" if real else None
