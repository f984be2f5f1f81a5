"""Clauses of stored queries as arrays, and under which of their terms queries are listed.

Of a query's clauses one without negation or range is its cover: the query is listed under the terms
of that clause, those that are expected to be rarest. Beside it stands the rarest of the other terms
that it needs, where most candidates end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from riverrun.operators.search.arrays import Numbers, Truths, firsts, from_sizes, ranges
from riverrun.operators.search.vocabulary import ALWAYS, NEVER

TERM, PHRASE, RANGE, CONDITION = range(4)
"""Kinds of literals, the cheapest to check first."""
NO_COVER = 1 << 40
"""What it costs to be listed under something that cannot be looked up."""

Literal = tuple[int, int, bool]
"""A kind, the number of what it is, and whether it is negated."""


@dataclass
class Flat:
    """Clauses of queries, one after the other, and where each begins."""

    kinds: npt.NDArray[np.int8]
    values: Numbers
    negated: Truths
    clause_from: Numbers
    query_from: Numbers

    @classmethod
    def of(cls, queries: Iterable[list[list[Literal]]]) -> Flat:
        """A query without clauses always holds, a clause without literals never."""
        given = [each or [[(TERM, ALWAYS, False)]] for each in queries]
        listed = [clause or [(TERM, NEVER, False)] for query in given for clause in query]
        literals = np.array([lit for clause in listed for lit in clause], np.int64).reshape(-1, 3)
        return cls(
            literals[:, 0].astype(np.int8),
            literals[:, 1].copy(),
            literals[:, 2].astype(np.bool_),
            from_sizes([len(clause) for clause in listed]),
            from_sizes([len(query) for query in given]),
        )

    def followed_by(self, more: Flat) -> Flat:
        return Flat(
            np.concatenate([self.kinds, more.kinds]),
            np.concatenate([self.values, more.values]),
            np.concatenate([self.negated, more.negated]),
            appended(self.clause_from, more.clause_from),
            appended(self.query_from, more.query_from),
        )

    @property
    def queries(self) -> int:
        return len(self.query_from) - 1

    @property
    def clauses(self) -> int:
        return len(self.clause_from) - 1


def appended(begins: Numbers, more: Numbers) -> Numbers:
    """Where lists begin, with those of others behind them."""
    return np.concatenate([begins, more[1:] + begins[-1]])


@dataclass
class Covers:
    """Where queries are listed, and the clauses that are left to check."""

    terms: Numbers
    queries: Numbers
    also: Numbers
    """Terms that are needed beside those that queries are listed under."""
    everywhere: Numbers
    """Queries without a cover: they meet every document."""
    todo: Numbers
    """Clauses of queries, the cheapest first."""
    todo_from: Numbers

    def followed_by(self, more: Covers, before: Flat) -> Covers:
        """With those of queries that come after the ones that there are."""
        terms = np.concatenate([self.terms, more.terms])
        order = np.argsort(terms, kind="stable")
        return Covers(
            terms[order],
            np.concatenate([self.queries, more.queries + before.queries])[order],
            np.concatenate([self.also, more.also])[order],
            np.concatenate([self.everywhere, more.everywhere + before.queries]),
            np.concatenate([self.todo, more.todo + before.clauses]),
            appended(self.todo_from, more.todo_from),
        )

    def without(self, gone: Truths) -> Covers:
        """Queries that are no more are listed nowhere."""
        stays = ~gone[self.queries]
        return Covers(
            self.terms[stays],
            self.queries[stays],
            self.also[stays],
            self.everywhere[~gone[self.everywhere]],
            self.todo,
            self.todo_from,
        )


def covers(flat: Flat, phrase_terms: Numbers, frequency: Numbers) -> Covers:
    """The cheapest way to meet each query. `phrase_terms` are the rarest words of phrases."""
    first, sizes = flat.clause_from[:-1], np.diff(flat.clause_from)
    query = np.repeat(np.arange(flat.queries), np.diff(flat.query_from))
    term, phrase = (~flat.negated & (flat.kinds == kind) for kind in (TERM, PHRASE))
    term &= flat.values != ALWAYS
    key = np.where(term, flat.values, 0)
    key[phrase] = phrase_terms[flat.values[phrase]]
    cost = np.add.reduceat(np.where(term | phrase, frequency[key] + 1, NO_COVER), first)
    best = cheapest(query, cost)
    plain = np.logical_and.reduceat(term, first)
    left = np.ones(flat.clauses, np.bool_)
    left[best[plain[best]]] = False  # to be met is to be true
    beside = cheapest(query, np.where(left & plain & (sizes == 1), cost, NO_COVER))
    left[beside] = False
    also = np.full(flat.queries, ALWAYS)
    also[query[beside]] = flat.values[first[beside]]
    literals = ranges(first[best], sizes[best])
    listed = np.unique(key[literals] * flat.queries + np.repeat(query[best], sizes[best]))
    queries = listed % flat.queries
    return Covers(
        listed // flat.queries,
        queries,
        also[queries],
        np.setdiff1d(np.arange(flat.queries), query[best], assume_unique=True),
        *_ordered(flat, query, left, cost),
    )


def cheapest(query: Numbers, cost: Numbers) -> Numbers:
    """Of each query that has one, the first of its cheapest clauses. Every query has a clause."""
    starts = np.flatnonzero(firsts(query))
    least = np.minimum.reduceat(cost, starts)
    found = np.flatnonzero((cost == least[query]) & (cost < NO_COVER))
    return found[firsts(query[found])]


def _ordered(flat: Flat, query: Numbers, left: Truths, cost: Numbers) -> tuple[Numbers, Numbers]:
    """The clauses that are left, by query, and where those of each begin."""
    hardest = np.maximum.reduceat(flat.kinds, flat.clause_from[:-1])
    chosen = np.flatnonzero(left)
    order = np.lexsort((cost[chosen], hardest[chosen], query[chosen]))
    return chosen[order], from_sizes(np.bincount(query[chosen], minlength=flat.queries))
