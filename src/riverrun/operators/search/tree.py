"""What a stored query asks for, as a tree, and the same as clauses that must all hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from riverrun.errors import InputError

MOST_CLAUSES = 64
"""Into which OR and brackets may multiply out."""
MOST_LITERALS = 4_096
"""In all clauses."""

Kind = Literal["word", "prefix", "near 1", "near 2", "value", "value prefix"]


class Term(NamedTuple):
    """Something that a document has or has not: one of the words that it stands for."""

    kind: Kind
    places: tuple[tuple[str, str], ...]
    """Columns, and what is looked for in each."""


class Phrase(NamedTuple):
    """Words one after the other, with at most so many others between them in all."""

    words: tuple[tuple[int, Term], ...]
    """With their distance from the first."""
    slop: int


class Between(NamedTuple):
    """A value of a column, both ends included."""

    column: str
    low: float | int
    high: float | int


Leaf = Term | Phrase | Between


@dataclass(frozen=True)
class Not:
    part: Tree


@dataclass(frozen=True)
class Every:
    parts: tuple[Tree, ...]
    """None: everything."""


@dataclass(frozen=True)
class Either:
    parts: tuple[Tree, ...]


Tree = Leaf | Not | Every | Either
Literals = tuple[tuple[Leaf, bool], ...]
"""Leaves of which one must hold, or for True must not."""


def clauses(tree: Tree) -> list[Literals]:
    """The conjunctive normal form. A clause without literals never holds."""
    found = _clauses(tree, negated=False)
    if sum(map(len, found)) > MOST_LITERALS:
        raise _complex(f"more than {MOST_LITERALS:,} words")
    return found


def _clauses(tree: Tree, *, negated: bool) -> list[Literals]:
    match tree:
        case Not():
            return _clauses(tree.part, negated=not negated)
        case Every() | Either():
            parts = [_clauses(each, negated=negated) for each in tree.parts]
            if isinstance(tree, Every) != negated:
                return [clause for part in parts for clause in part]
            if math.prod(map(len, parts)) > max(MOST_CLAUSES, *map(len, parts), 0):
                raise _complex(f"more than {MOST_CLAUSES} conditions")
            return [tuple(lit for clause in each for lit in clause) for each in product(*parts)]
        case _:  # any other: a leaf
            return [((tree, negated),)]


def wanted(tree: Tree, *, negated: bool = False) -> Iterator[Leaf]:
    """The parts that speak for a document, in their order: those that are not negated."""
    match tree:
        case Not():
            yield from wanted(tree.part, negated=not negated)
        case Every() | Either():
            for each in tree.parts:
                yield from wanted(each, negated=negated)
        case _:  # any other: a leaf
            if not negated:
                yield tree


def _complex(got: str) -> InputError:
    return InputError(
        "the query is too complex",
        got=f"written out, it has {got}",
        hint="OR between brackets with several words multiplies them: make several queries of it",
    )
