"""What stored queries look for, by number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.operators.search.arrays import Numbers, from_sizes
from riverrun.operators.search.lexicon import Lexicon
from riverrun.operators.search.reading import Searched, plain_form
from riverrun.operators.search.tree import Between, Phrase, Term
from riverrun.sinks.fulltext.layout import Field

ENDS: dict[str, type[Any]] = {"float": np.float64, "unsigned": np.uint64}
"""What the ends of ranges are, by the kind of column."""
NEVER, ALWAYS = 0, 1
"""Terms that no document has, and that all have."""


class Vocabulary:
    """Grows as queries come. A number never changes."""

    def __init__(self, over: Searched) -> None:
        self.over = over
        self.terms: dict[Term, int] = {}
        self.size = 2
        self.frequency = np.zeros(1024, np.int64)
        """How often a term was in a document: it changes costs, never results."""
        self.phrases, self.ranges, self.conditions = Phrases(), Ranges(), dict[str, int]()

    @cached_property
    def lexicons(self) -> dict[str, Lexicon]:
        forms = self.over.forms
        return {name: Lexicon(forms.get(name), plain_form) for name in self.over.fields}

    def term(self, term: Term) -> int:
        number = self.terms.get(term)
        if number is None:
            number = self.terms[term] = self.size
            self.size += 1
            if self.size > len(self.frequency):
                self.frequency = np.append(self.frequency, np.zeros_like(self.frequency))
            for column, text in term.places:
                self.lexicons[column].add(term.kind, text, number)
        return number

    def phrase(self, phrase: Phrase) -> int:
        words = [(self.term(term), place) for place, term in phrase.words]
        return self.phrases.number(phrase, words)

    def settle(self) -> None:
        """Takes the phrases and ranges that came into their arrays."""
        self.phrases.settle()
        self.ranges.settle(self.over.fields)

    def range(self, between: Between) -> int:
        return self.ranges.number(between)

    def condition(self, text: str) -> int:
        return self.conditions.setdefault(text, len(self.conditions))


class Phrases:
    """The words of phrases, one after the other."""

    def __init__(self) -> None:
        self.known: dict[Phrase, int] = {}
        self._new: list[tuple[int, list[tuple[int, int]]]] = []
        self.begins = np.zeros(1, np.int64)
        self.words = self.places = self.slop = np.empty(0, np.int64)
        """Terms, their distance from the first word, and how many others may be between."""

    def number(self, phrase: Phrase, words: list[tuple[int, int]]) -> int:
        number = self.known.setdefault(phrase, len(self.known))
        if number == len(self.slop) + len(self._new):
            self._new.append((phrase.slop, words))
        return number

    def settle(self) -> None:
        """Takes those that came into the arrays."""
        if not self._new:
            return
        slop = np.array([each for each, _ in self._new], np.int64)
        words = np.array([word for _, own in self._new for word in own], np.int64)
        sizes = from_sizes([len(own) for _, own in self._new])
        self.begins = np.concatenate([self.begins, sizes[1:] + self.begins[-1]])
        self.words = np.concatenate([self.words, words[:, 0]])
        self.places = np.concatenate([self.places, words[:, 1]])
        self.slop = np.concatenate([self.slop, slop])
        self._new = []

    def rarest(self, frequency: Numbers) -> Numbers:
        """Of each phrase the place of its rarest word in `words`."""
        own = np.repeat(np.arange(len(self.slop)), np.diff(self.begins))
        return np.lexsort((frequency[self.words], own))[self.begins[:-1]]


class Ranges:
    """The limits of ranges, by column."""

    def __init__(self) -> None:
        self.known: dict[Between, int] = {}
        self.columns: dict[str, list[Between]] = {}
        self.column, self.place = np.empty(0, np.int64), np.empty(0, np.int64)
        """Of each range: the number of its column, and its place among those of the column."""
        self.limits: dict[str, npt.NDArray[Any]] = {}
        """Of each column: the ends of its ranges."""
        self._new: list[tuple[int, int]] = []

    def number(self, between: Between) -> int:
        number = self.known.get(between)
        if number is None:
            number = self.known[between] = len(self.known)
            own = self.columns.setdefault(between.column, [])
            self._new.append((list(self.columns).index(between.column), len(own)))
            own.append(between)
        return number

    def settle(self, fields: Mapping[str, Field]) -> None:
        """Takes those that came into the arrays."""
        if not self._new:
            return
        new = np.array(self._new, np.int64)
        self.column = np.concatenate([self.column, new[:, 0]])
        self.place = np.concatenate([self.place, new[:, 1]])
        for name in {list(self.columns)[number] for number in new[:, 0].tolist()}:
            kind = ENDS.get(fields[name].kind, np.int64)  # any other: a whole number
            ends = [(each.low, each.high) for each in self.columns[name]]
            self.limits[name] = np.array(ends, kind)
        self._new = []
