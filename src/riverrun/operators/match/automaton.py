"""From the tree of a pattern to an automaton.

A position is one occurrence of a variable in the pattern, with its repetitions written out.
`follow` lists, in order of preference, what may come after each: a position, MATCH or TIMEOUT.
There are no empty moves left, so greedy, reluctant, alternatives and permutations are nothing but
the order of these lists, and whoever matches needs to know nothing about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import factorial
from typing import Any

from riverrun.operators.match.pattern import (
    Alternatives,
    Excluded,
    Permutation,
    Repeat,
    Sequence,
    Timeout,
    Tree,
    Variable,
)
from riverrun.operators.match.text import Text

MATCH, TIMEOUT = -1, -2
LIMIT = 4096
"""Positions of an automaton."""
ENDS = {MATCH: "match", TIMEOUT: "timeout"}


@dataclass(frozen=True)
class Automaton:
    variables: tuple[str, ...]
    var: tuple[int, ...]
    """The variable of each position."""
    excluded: tuple[bool, ...]
    """Whether the rows of a position are left out of ALL ROWS PER MATCH."""
    follow: tuple[tuple[int, ...], ...]
    """What may come after each position; the last list is what a match may begin with."""

    @property
    def first(self) -> tuple[int, ...]:
        return self.follow[-1]

    @property
    def first_mask(self) -> int:
        """The variables that a match may begin with, as bits."""
        return sum({1 << self.var[target] for target in self.first})

    @property
    def times_out(self) -> bool:
        return any(TIMEOUT in targets for targets in self.follow)

    def depth(self, variable: int) -> int:
        """The fewest rows that stand before one of the variable in a match."""
        found, at, seen = [], [t for t in self.first if t >= 0], set(self.first)
        for depth in range(len(self.var) + 1):
            found += [depth] if any(self.var[p] == variable for p in at) else []
            at = [t for p in at for t in self.follow[p] if t >= 0 and t not in seen]
            seen.update(at)
        return min(found, default=0)

    def names(self) -> list[str]:
        """Of positions: the variable, with a number if it stands there more than once."""
        counts = [self.var[:p].count(v) + 1 for p, v in enumerate(self.var)]
        return [
            self.variables[v] + (f"#{n}" if self.var.count(v) > 1 else "")
            for n, v in zip(counts, self.var, strict=True)
        ]

    def lines(self) -> list[str]:
        """What may follow what, for people."""
        names = ["begin", *self.names()]
        follow = [self.follow[-1], *self.follow[:-1]]
        return [
            f"{name} -> {', '.join(ENDS[t] if t < 0 else names[t + 1] for t in targets)}"
            for name, targets in zip(names, follow, strict=True)
        ]


@dataclass(frozen=True)
class Known:
    """What is known of the conditions of variables."""

    always: frozenset[int] = frozenset()
    """Those that every row may be."""
    look_back: bool = True
    """Whether some depend on what earlier rows of the match are."""


def automaton_of(
    source: Text,
    tree: Tree,
    variables: tuple[str, ...],
    known: Known = Known(),  # noqa: B008 - frozen
    *,
    every: bool = False,
) -> Automaton:
    """`variables` in the order of their numbers. With `every`, all matches are wanted, not only the
    preferred one."""
    builder = _Builder(source, list(variables))
    end = builder.node("match")
    begin = builder.build(tree, end, hidden=False)
    after = {each[1]: each[2] for each in builder.nodes if each[0] == "row"}
    follow = [builder.reached(after[p]) for p in range(len(after))] + [builder.reached(begin)]
    _refuse_empty(source, follow[-1])
    if not every:
        follow = _preferred(follow, builder.var, known)
    kept = _reachable(follow)
    _refuse_unreachable(builder, kept)
    number = {p: n for n, p in enumerate(kept)} | {end: end for end in ENDS}
    return Automaton(
        tuple(builder.variables),
        tuple(builder.var[p] for p in kept),
        tuple(builder.excluded[p] for p in kept),
        tuple(tuple(number[t] for t in follow[p]) for p in [*kept, len(follow) - 1]),
    )


def _preferred(follow: list[list[int]], var: list[int], known: Known) -> list[list[int]]:
    """Without what nothing ever comes to: a match that is there beats all that is left, and so does
    what every row may be, if it leads to the same."""
    cut = [t[: t.index(MATCH) + 1] if MATCH in t else t for t in follow]
    ends = {p for p, targets in enumerate(cut[:-1]) if targets[0] == MATCH}

    def beats(p: int, t: int) -> bool:
        if p < 0:
            return False
        if p in ends and (var[p] == var[t] or var[p] in known.always):
            return True
        return var[p] in known.always and not known.look_back and cut[p] == cut[t]

    def beaten(targets: list[int], n: int) -> bool:
        return any(beats(p, targets[n]) for p in targets[:n])

    return [[t for n, t in enumerate(each) if t < 0 or not beaten(each, n)] for each in cut]


def _reachable(follow: list[list[int]]) -> list[int]:
    """Positions in the order in which they are come to."""
    found: dict[int, None] = {}
    todo = [t for t in reversed(follow[-1]) if t >= 0]
    while todo:
        here = todo.pop()
        if here not in found:
            found[here] = None
            todo += [t for t in reversed(follow[here]) if t >= 0]
    return list(found)


def _refuse_empty(source: Text, first: list[int]) -> None:
    if min(first) < 0:
        raise source.error(
            "the pattern matches without any row",
            source.text.upper().find("PATTERN"),
            "it would match everywhere: make one of its variables required",
        )


def _refuse_unreachable(builder: _Builder, kept: list[int]) -> None:
    live = {builder.begins[p] for p in kept}
    for p, begin in sorted(enumerate(builder.begins), key=lambda pair: pair[1]):
        if begin not in live:
            raise builder.source.error(
                f"{builder.variables[builder.var[p]]} is never reached",
                begin,
                "what is preferred to it is always enough: change their order, DEFINE what stands "
                "before it, or make a reluctant quantifier greedy. Nothing comes after TIMEOUT",
            )


class _Builder:
    """An automaton with empty moves: nodes that lead to others."""

    def __init__(self, source: Text, variables: list[str]) -> None:
        self.source, self.variables = source, variables
        self.numbers = {name.lower(): n for n, name in enumerate(variables)}
        self.nodes: list[list[Any]] = []
        self.var: list[int] = []
        self.excluded: list[bool] = []
        self.begins: list[int] = []

    def node(self, *kind: Any) -> int:
        self.nodes.append(list(kind))
        if len(self.nodes) > 16 * LIMIT or len(self.var) > LIMIT:
            raise self.source.error(
                f"the pattern is longer than {LIMIT} rows",
                self.source.text.upper().find("PATTERN"),
                "repetitions are written out: use smaller numbers, or + and a condition on COUNT",
            )
        return len(self.nodes) - 1

    def build(self, tree: Tree, after: int, *, hidden: bool) -> int:
        """The node where the tree begins, if `after` is where it goes on."""
        match tree:
            case Variable():
                return self._row(tree, after, hidden)
            case Sequence():
                for part in reversed(tree.parts):
                    after = self.build(part, after, hidden=hidden)
                return after
            case Alternatives():
                return self.node("split", [self.build(p, after, hidden=hidden) for p in tree.parts])
            case Permutation():
                return self.build(self._orders(tree), after, hidden=hidden)
            case Excluded():
                return self.build(tree.body, after, hidden=True)
            case Timeout():
                return self.node("timeout")
            case Repeat():
                return self._repeat(tree, after, hidden)
            case _:
                raise TypeError(tree)

    def _row(self, tree: Variable, after: int, hidden: bool) -> int:
        number = self.numbers.setdefault(tree.name.lower(), len(self.variables))
        if number == len(self.variables):
            self.variables.append(tree.name)
        self.var.append(number)
        self.excluded.append(hidden)
        self.begins.append(tree.begin)
        return self.node("row", len(self.var) - 1, after)

    def _orders(self, tree: Permutation) -> Tree:
        if factorial(len(tree.parts)) > LIMIT:
            raise self.source.error(
                "PERMUTE has too many parts", self.source.text.upper().find("PERMUTE")
            )
        return Alternatives(tuple(Sequence(order) for order in permutations(tree.parts)))

    def _repeat(self, tree: Repeat, after: int, hidden: bool) -> int:
        if tree.high is None:
            after = self._loop(tree, after, hidden)
        else:
            end = after
            for _ in range(tree.high - tree.low):
                mark = self.node("enter", None, None)
                leave = self.node("leave", mark, after)
                self.nodes[mark][1:] = [mark, self.build(tree.body, leave, hidden=hidden)]
                after = self.node("split", [mark, end] if tree.greedy else [end, mark])
        for _ in range(tree.low):
            after = self.build(tree.body, after, hidden=hidden)
        return after

    def _loop(self, tree: Repeat, after: int, hidden: bool) -> int:
        loop = self.node("split", None)
        again = self.node("enter", loop, None)
        self.nodes[again][2] = self.build(tree.body, self.node("leave", loop, loop), hidden=hidden)
        self.nodes[loop][1] = [again, after] if tree.greedy else [after, again]
        return loop

    def reached(self, node: int) -> list[int]:
        """What empty moves lead to, in order of preference, each once."""
        found: dict[int, None] = {}
        seen: set[tuple[int, frozenset[int]]] = set()
        todo: list[tuple[int, frozenset[int]]] = [(node, frozenset())]
        while todo:
            here, entered = todo.pop()
            if (here, entered) in seen:
                continue
            seen.add((here, entered))
            todo += reversed(list(self._moves(here, entered, found)))
        return list(found)

    def _moves(
        self, node: int, entered: frozenset[int], found: dict[int, None]
    ) -> Iterator[tuple[int, frozenset[int]]]:
        kind, *rest = self.nodes[node]
        match kind:
            case "row":
                found.setdefault(rest[0])
            case "match" | "timeout":
                found.setdefault(MATCH if kind == "match" else TIMEOUT)
            case "split":
                yield from ((each, entered) for each in rest[0])
            case "enter":
                yield rest[1], entered | {rest[0]}
            case "leave":
                if rest[0] not in entered:  # an empty repetition leads nowhere
                    yield rest[1], entered
            case _:
                raise ValueError(kind)
