"""The terms of documents: which are in each, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.kernels.sql import Evaluator
from riverrun.operators.search.arrays import Numbers, Truths, firsts, ranges
from riverrun.operators.search.reading import WIDEST
from riverrun.operators.search.tokens import Tokens, cut
from riverrun.operators.search.vocabulary import ALWAYS, NEVER, Vocabulary
from riverrun.schema import quoted
from riverrun.sinks.fulltext.layout import Field

SEVERAL = -2
"""Of a word that stands for more than one term."""
APART = WIDEST + 2
"""Places between columns of text: no phrase goes from one to the other."""


@dataclass
class Values:
    """A column that is compared, as numbers, and which documents have one."""

    numbers: npt.NDArray[Any]
    known: Truths


class Documents:
    """Some documents, seen by the terms that queries have."""

    def __init__(self, rows: pl.DataFrame, vocabulary: Vocabulary, evaluator: Evaluator) -> None:
        self.rows, self.vocabulary, self.evaluator = rows, vocabulary, evaluator
        self.count = rows.height
        self.texts: dict[str, Tokens] = {}
        self._places: list[tuple[int, Numbers, Numbers]] = []
        self.text_from: list[int] = []
        """The first place of each column of text; values of other columns come behind."""
        doc, term, place = self._found()
        self.bits = int(place.max(initial=0)).bit_length()
        keys = ((doc * vocabulary.size + term) << self.bits) | place
        keys.sort()
        self.keys = keys
        pairs = keys >> self.bits
        self.pair_from = np.append(np.flatnonzero(firsts(pairs)), len(pairs))
        """Where the places of a document and a term begin in `keys`."""
        self.pairs = pairs[self.pair_from[:-1]]
        self.doc, self.term = self.pairs // vocabulary.size, self.pairs % vocabulary.size

    def _found(self) -> tuple[Numbers, Numbers, Numbers]:
        """Documents, their terms, and the places of these."""
        parts: list[tuple[Numbers, Numbers, Numbers]] = []
        first = 0
        for name in self.vocabulary.over.text:
            tokens = self.texts[name] = cut(self.rows[name].to_list())
            self.text_from.append(first)
            parts += self._terms(name, (tokens.doc, tokens.codes, tokens.words), first)
            first += len(tokens.codes) + APART
        self.text_from.append(first)
        for name, lexicon in self.vocabulary.lexicons.items():
            if name not in self.texts and lexicon.used:
                doc, codes, values = self._values(name)
                parts += self._terms(name, (doc, codes, values), first)
                first += len(codes)
        doc, term, place = (np.concatenate([part[n] for part in parts]) for n in range(3))
        return doc, term, place

    def _terms(
        self, name: str, found: tuple[Numbers, Numbers, list[str]], first: int
    ) -> list[tuple[Numbers, Numbers, Numbers]]:
        doc, codes, words = found
        alone, text, terms = self.vocabulary.lexicons[name].numbers(words)
        number = alone[codes]
        self._places.append((first, number, doc))
        at = np.flatnonzero(number >= 0)
        parts = [(doc[at], number[at], at + first)]
        if len(text):
            begins = np.searchsorted(text, np.arange(len(words) + 1))
            sizes = np.diff(begins)[codes]
            at = np.repeat(np.arange(len(codes)), sizes)
            parts.append((doc[at], terms[ranges(begins[codes], sizes)], at + first))
        return parts

    def _values(self, name: str) -> tuple[Numbers, Numbers, list[str]]:
        """Values of a column as texts, each of a list."""
        own = self.vocabulary.over.fields[name]
        text = f"{quoted(name)}::VARCHAR{'[]' if own.many else ''}"
        frame = self.rows.select(name).to_arrow()
        found = pl.DataFrame(
            pl.from_arrow(self.evaluator.run(f"SELECT {text} AS v FROM rows", rows=frame))
        )
        found = found.with_row_index("doc")
        if own.many:
            found = found.explode("v")
        found = found.drop_nulls("v")
        coded = found["v"].to_arrow().dictionary_encode()
        codes = coded.indices.to_numpy().astype(np.int64)
        return found["doc"].cast(pl.Int64).to_numpy(), codes, coded.dictionary.to_pylist()

    def mark(self, low: int, high: int) -> tuple[int, int]:
        """Makes the table of some documents and the terms that they have; the numbers of the pairs
        of these."""
        begin, end = (int(each) for each in np.searchsorted(self.doc, [low, high]))
        here = np.zeros(self.vocabulary.size, np.bool_)
        here[self.term[begin:end]] = True
        here[[NEVER, ALWAYS]] = False
        there = np.flatnonzero(here)
        self.local = np.zeros(self.vocabulary.size, np.int64)
        self.local[ALWAYS] = 1
        self.local[there] = np.arange(2, len(there) + 2)
        self.first, self.width = low, len(there) + 2
        self.table = np.zeros((high - low) * self.width, np.bool_)
        self.table[1 :: self.width] = True
        doc, term = self.doc[begin:end] - low, self.term[begin:end]
        self.table[doc * self.width + self.local[term]] = True
        return begin, end

    def have(self, doc: Numbers, term: Numbers) -> Truths:
        """Of documents that the table is of."""
        return np.asarray(self.table[(doc - self.first) * self.width + self.local[term]])

    def first_place(self, doc: Numbers, term: Numbers, place: Numbers | int = 0) -> Numbers:
        """Where a term is in a document, not before a place; -1 if it is not."""
        pair = doc * self.vocabulary.size + term
        at = np.searchsorted(self.keys, (pair << self.bits) | place)
        inside = at < len(self.keys)
        found = self.keys[np.where(inside, at, 0)] if len(self.keys) else np.zeros_like(pair)
        there = inside & ((found >> self.bits) == pair)
        return np.where(there, found & self._mask, -1)

    def places(self, doc: Numbers, term: Numbers, pair: Numbers) -> tuple[Numbers, Numbers]:
        """All places of terms in documents: which of those, and the place. `pair` is the number of
        a document and a term, which may be the one that is looked for."""
        if not len(self.pairs):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        pair = pair.copy()
        other = np.flatnonzero((pair < 0) | (self.term[pair] != term))
        pair[other] = self._pair(doc[other], term[other])
        here = np.flatnonzero(pair >= 0)
        low, high = self.pair_from[pair[here]], self.pair_from[pair[here] + 1]
        return np.repeat(here, high - low), self.keys[ranges(low, high - low)] & self._mask

    def _pair(self, doc: Numbers, term: Numbers) -> Numbers:
        """The number of a document and a term; -1 if it does not have it."""
        wanted = doc * self.vocabulary.size + term
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where(self.pairs[at] == wanted, at, -1)

    @cached_property
    def _mask(self) -> int:
        return (1 << self.bits) - 1

    @cached_property
    def at(self) -> tuple[Numbers, Numbers]:
        """Of each place: its only term, SEVERAL or -1; and its document, -1 between columns."""
        size = self.text_from[-1] + APART
        terms, docs = np.full(size, -1), np.full(size, -1)
        for first, number, doc in self._places[: len(self.texts)]:
            terms[first : first + len(number)] = np.maximum(number, SEVERAL)
            docs[first : first + len(number)] = doc
        return terms, docs

    def is_at(self, doc: Numbers, term: Numbers, place: Numbers) -> Truths:
        """Whether a term is at a place, and that in the document."""
        terms, docs = self.at
        inside = np.minimum(place, len(terms) - 1)
        there = (docs[inside] == doc) & (place < len(terms))
        found = there & (terms[inside] == term)
        unsure = np.flatnonzero(there & (terms[inside] == SEVERAL))
        if len(unsure):
            at = self.first_place(doc[unsure], term[unsure], place[unsure])
            found[unsure] = at == place[unsure]
        return np.asarray(found)

    @cached_property
    def compared(self) -> dict[str, Values]:
        """The columns that ranges are of."""
        names = list(self.vocabulary.ranges.columns)
        fields = self.vocabulary.over.fields
        plain = {name: own for name in names if (own := _plain(self.rows[name], fields[name]))}
        names = [name for name in names if name not in plain]
        if not names:
            return plain
        made = ", ".join(f"{fields[name].expression()} AS {quoted(name)}" for name in names)
        rows = self.rows.select(*names).to_arrow()
        found = pl.DataFrame(
            pl.from_arrow(self.evaluator.run(f"SELECT {made} FROM rows", rows=rows))
        )
        return plain | {name: _values(found[name]) for name in names}


def _plain(column: pl.Series, own: Field) -> Values | None:
    """Values that are numbers already."""
    if own.kind == "integer" and column.dtype.is_integer():
        return _values(column.cast(pl.Int64))
    if own.kind == "float" and column.dtype.is_float():
        found = _values(column.cast(pl.Float64))
        return Values(found.numbers, found.known & np.isfinite(found.numbers))
    return None


def _values(column: pl.Series) -> Values:
    return Values(column.fill_null(0).to_numpy(), column.is_not_null().to_numpy())
