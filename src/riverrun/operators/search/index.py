"""The index of stored queries. Queries are numbered as they come; one that goes leaves a gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from riverrun.durations import BEGINNING, END
from riverrun.operators.search.arrays import Numbers, from_sizes
from riverrun.operators.search.covers import (
    CONDITION,
    PHRASE,
    RANGE,
    TERM,
    Covers,
    Flat,
    Literal,
    covers,
)
from riverrun.operators.search.reading import Searched
from riverrun.operators.search.tree import Leaf, Literals, Phrase, Term, Tree, clauses, wanted
from riverrun.operators.search.vocabulary import Vocabulary

LEARNED = 1_000
"""Documents after which it is known how often words occur; again after twice as many, and so on."""


@dataclass(frozen=True)
class Entered:
    """A query that is to be listed."""

    clauses: list[Literals]
    leaves: list[Leaf]
    """Its parts that are not negated."""
    condition: str | None
    begins: int = BEGINNING
    """The time of the first documents that it sees."""

    @classmethod
    def of(cls, tree: Tree, condition: str | None = None, begins: int = BEGINNING) -> Entered:
        return cls(clauses(tree), list(dict.fromkeys(wanted(tree))), condition, begins)

    @property
    def needs_a_word(self) -> bool:
        """Whether documents without one of some words need not be looked at."""
        return any(
            all(not negated and isinstance(leaf, Term | Phrase) for leaf, negated in clause)
            for clause in self.clauses
        )


class Index:
    def __init__(self, over: Searched) -> None:
        self.over = over
        self.vocabulary = Vocabulary(over)
        self.begins = self.ends = np.empty(0, np.int64)
        """Of each query: the times of the documents that it sees."""
        self.documents, self.learned = 0, LEARNED
        self._set(Flat.of([]), Flat.of([]), covers_of_none())

    def _set(self, flat: Flat, leaves: Flat, listed: Covers) -> None:
        self.flat, self.leaves, self.covers = flat, leaves, listed
        self.listed_from = from_sizes(np.bincount(listed.terms, minlength=self.vocabulary.size))

    @property
    def size(self) -> int:
        return self.flat.queries

    def add(self, queries: Sequence[Entered]) -> None:
        """They get the next numbers."""
        if not queries:
            return
        flat = Flat.of([list(self._clauses(each)) for each in queries])
        leaves = Flat.of([[self._leaves(each.leaves)] for each in queries])
        self.vocabulary.settle()
        listed = self._covers(flat)
        self._set(
            self.flat.followed_by(flat),
            self.leaves.followed_by(leaves),
            self.covers.followed_by(listed, self.flat),
        )
        self.begins = np.append(self.begins, [each.begins for each in queries])
        self.ends = np.append(self.ends, np.full(len(queries), END))

    def drop(self, numbers: Numbers) -> None:
        """Queries that see no document any more."""
        gone = np.zeros(self.size, np.bool_)
        gone[numbers] = True
        self._set(self.flat, self.leaves, self.covers.without(gone))

    def learn(self, terms: Numbers, documents: int) -> None:
        """Terms of documents: after a while queries are listed anew, under those that are rare."""
        self.vocabulary.frequency[: self.vocabulary.size] += np.bincount(
            terms, minlength=self.vocabulary.size
        )
        self.documents += documents
        if self.documents >= self.learned:
            self.learned = 2 * self.documents
            listed = self._covers(self.flat) if self.size else covers_of_none()
            there = np.zeros(self.size, np.bool_)
            there[self.covers.queries] = there[self.covers.everywhere] = True
            self._set(self.flat, self.leaves, listed.without(~there))

    def know_as(self, other: Index) -> None:
        """Takes over what was learned of terms."""
        frequency, theirs = self.vocabulary.frequency, other.vocabulary.frequency
        for term, number in self.vocabulary.terms.items():
            if (known := other.vocabulary.terms.get(term)) is not None:
                frequency[number] = theirs[known]
        self.documents, self.learned = other.documents, other.learned
        if self.size:
            self._set(self.flat, self.leaves, self._covers(self.flat))

    def _covers(self, flat: Flat) -> Covers:
        frequency, phrases = self.vocabulary.frequency, self.vocabulary.phrases
        self.anchors = phrases.rarest(frequency)
        return covers(flat, phrases.words[self.anchors], frequency)

    def _clauses(self, query: Entered) -> Iterator[list[Literal]]:
        for clause in query.clauses:
            if len(clause) == 1 and isinstance(clause[0][0], Phrase) and not clause[0][1]:
                # all words of a phrase are needed: cheaper to check than their places
                words = dict.fromkeys(term for _, term in clause[0][0].words)
                yield from ([(TERM, self.vocabulary.term(term), False)] for term in words)
            yield [(*self._numbered(leaf), negated) for leaf, negated in clause]
        if query.condition is not None:
            yield [(CONDITION, self.vocabulary.condition(query.condition), False)]

    def _leaves(self, leaves: list[Leaf]) -> list[Literal]:
        return [(*self._numbered(leaf), False) for leaf in leaves]

    def _numbered(self, leaf: Leaf) -> tuple[int, int]:
        if isinstance(leaf, Term):
            return TERM, self.vocabulary.term(leaf)
        if isinstance(leaf, Phrase):
            return PHRASE, self.vocabulary.phrase(leaf)
        return RANGE, self.vocabulary.range(leaf)


def covers_of_none() -> Covers:
    none = np.empty(0, np.int64)
    return Covers(none, none, none, none, none, np.zeros(1, np.int64))
