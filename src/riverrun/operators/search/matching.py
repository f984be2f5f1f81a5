"""Documents against stored queries: candidates by the words that they share, then the clauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
import polars as pl

from riverrun.kernels.trying import tried
from riverrun.operators.search.arrays import Numbers, Truths, firsts, ranges
from riverrun.operators.search.covers import CONDITION, PHRASE, RANGE, TERM, Flat
from riverrun.operators.search.documents import Documents
from riverrun.operators.search.index import Index

AT_ONCE = 100
"""Conditions in one query."""
BLOCK = 256
"""Documents that are matched together: a table of them and their terms fits into a cache."""

Places = tuple[Numbers, Numbers, Numbers]
"""Of phrases that are there: which, and from which place to which; by which, then by place."""


@dataclass
class Phrased:
    """What was found of phrases in documents: whether each is there, and where it is first."""

    first: Numbers
    last: Numbers
    """-1: it is not there."""


@dataclass
class Matching:
    """One lot of documents."""

    index: Index
    docs: Documents
    times: Numbers
    """By which it is decided which queries see a document."""
    candidates: list[Numbers] = field(default_factory=list)
    """Queries that were looked at, each as often as it was."""
    checked: list[Numbers] = field(default_factory=list)
    """Those of which more than a word beside was looked at."""
    nanoseconds: list[int] = field(default_factory=lambda: [0, 0])
    """To find candidates, and to check them."""

    def hits(self) -> tuple[Numbers, Numbers]:
        """Pairs of document and query, in their order."""
        size, found = max(self.index.size, 1), [np.empty(0, np.int64)]
        for low in range(0, self.docs.count, BLOCK):
            began = perf_counter_ns()
            met = self._met(low, min(low + BLOCK, self.docs.count))
            between = perf_counter_ns()
            found += [doc * size + query for doc, query in self._checked(*met)]
            self.nanoseconds[0] += between - began
            self.nanoseconds[1] += perf_counter_ns() - between
        pairs = np.unique(np.concatenate(found))
        return pairs // size, pairs % size

    def _met(self, low: int, high: int) -> tuple[Numbers, Numbers, Numbers]:
        """Candidates: queries that are listed under a term of a document, and have their other; and
        the number of that document and term."""
        index, docs = self.index, self.docs
        begin, end = docs.mark(low, high)
        term = docs.term[begin:end]
        size = index.listed_from[term + 1] - index.listed_from[term]
        pair = np.repeat(np.arange(begin, end), size)
        doc = docs.doc[pair]
        place = ranges(index.listed_from[term], size)
        good = np.flatnonzero(docs.have(doc, index.covers.also[place]))
        self.candidates.append(index.covers.queries[place])
        doc, query, pair = doc[good], self.candidates[-1][good], pair[good]
        if len(index.covers.everywhere):
            every = np.tile(index.covers.everywhere, high - low)
            doc = np.append(doc, np.repeat(np.arange(low, high), len(index.covers.everywhere)))
            query, pair = np.append(query, every), np.append(pair, np.full(len(every), -1))
            self.candidates.append(every)
        at = self.times[doc]
        seen = np.flatnonzero((index.begins[query] <= at) & (at < index.ends[query]))
        self.checked.append(query[seen])
        return doc[seen], query[seen], pair[seen]

    def _checked(
        self, doc: Numbers, query: Numbers, pair: Numbers
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Candidates of which every clause holds."""
        covers, step = self.index.covers, 0
        while len(doc):
            place = covers.todo_from[query] + step
            done = place == covers.todo_from[query + 1]
            yield doc[done], query[done]
            going = np.flatnonzero(~done)
            doc, query, pair = doc[going], query[going], pair[going]
            held = np.flatnonzero(self._hold(doc, covers.todo[place[going]], pair))
            doc, query, pair, step = doc[held], query[held], pair[held], step + 1

    def _hold(self, doc: Numbers, clause: Numbers, pair: Numbers) -> Truths:
        """Whether each clause holds in its document: one of its literals does."""
        flat = self.index.flat
        first = flat.clause_from[clause]
        size = flat.clause_from[clause + 1] - first
        if not len(size) or size.max() == 1:
            return self.literals(flat, doc, first, pair)
        repeated = np.repeat(np.arange(len(doc)), size)
        truth = self.literals(flat, doc[repeated], ranges(first, size), pair[repeated])
        return np.logical_or.reduceat(truth, np.cumsum(size) - size)

    def literals(self, flat: Flat, doc: Numbers, literal: Numbers, pair: Numbers) -> Truths:
        """Whether each literal holds in its document, which was met by a pair of it and a term."""
        kinds, values = flat.kinds[literal], flat.values[literal]
        if not kinds.any():  # terms only
            return self.docs.have(doc, values) ^ flat.negated[literal]
        truth = np.empty(len(literal), np.bool_)
        for kind in np.unique(kinds).tolist():
            of = np.flatnonzero(kinds == kind)
            truth[of] = self._of_kind(kind, doc[of], values[of], pair[of])
        return truth ^ flat.negated[literal]

    def _of_kind(self, kind: int, doc: Numbers, value: Numbers, pair: Numbers) -> Truths:
        if kind == TERM:
            return self.docs.have(doc, value)
        if kind == PHRASE:
            return self.phrases(doc, value, pair).first >= 0
        if kind == RANGE:
            return self._ranges(doc, value)
        if kind == CONDITION:
            return self._conditions(doc, value)
        raise ValueError(kind)

    def phrases(self, doc: Numbers, phrase: Numbers, pair: Numbers) -> Phrased:
        """Whether phrases are in documents, and where first."""
        known = self.index.vocabulary.phrases
        loose = known.slop[phrase] > 0
        first, last = np.full(len(doc), -1), np.full(len(doc), -1)
        for of, beside in (
            (np.flatnonzero(~loose), self._in_row),
            (np.flatnonzero(loose), self._near),
        ):
            if len(of):
                which, start, end = beside(doc[of], phrase[of], pair[of])
                chosen = np.flatnonzero(firsts(which))  # places are in order
                first[of[which[chosen]]], last[of[which[chosen]]] = start[chosen], end[chosen]
        return Phrased(first, last)

    def _in_row(self, doc: Numbers, phrase: Numbers, pair: Numbers) -> Places:
        """From each place of the rarest word: the others are where they have to be."""
        known = self.index.vocabulary.phrases
        anchor = self.index.anchors[phrase]
        which, place = self.docs.places(doc, known.words[anchor], pair)
        start = place - known.places[anchor[which]]
        good = np.flatnonzero(start >= 0)
        which, start = which[good], start[good]
        begin, size = known.begins[phrase], known.begins[phrase + 1] - known.begins[phrase]
        for number in range(int(size.max(initial=0))):
            word = begin[which] + number
            inside = np.flatnonzero((number < size[which]) & (word != anchor[which]))
            fits = np.ones(len(which), np.bool_)
            of, word = which[inside], word[inside]
            fits[inside] = self.docs.is_at(
                doc[of], known.words[word], start[inside] + known.places[word]
            )
            which, start = which[fits], start[fits]
        end = start + known.places[begin[which] + size[which] - 1]
        return which, start, end

    def _near(self, doc: Numbers, phrase: Numbers, pair: Numbers) -> Places:
        """From each place of the first word: each other is the next one after that before it."""
        known = self.index.vocabulary.phrases
        begin, size = known.begins[phrase], known.begins[phrase + 1] - known.begins[phrase]
        which, start = self.docs.places(doc, known.words[begin], pair)
        end = start
        for number in range(1, int(size.max(initial=0))):
            inside = number < size[which]
            word = begin[which] + np.minimum(number, size[which] - 1)
            wanted = end + known.places[word] - known.places[np.maximum(word - 1, begin[which])]
            found = self.docs.first_place(doc[which], known.words[word], wanted)
            extra = found - start - known.places[word]
            fits = ~inside | ((found >= 0) & (extra <= known.slop[phrase[which]]))
            end = np.where(inside, found, end)
            which, start, end = which[fits], start[fits], end[fits]
        return which, start, end

    def _ranges(self, doc: Numbers, number: Numbers) -> Truths:
        known = self.index.vocabulary.ranges
        column, place = known.column[number], known.place[number]
        truth = np.zeros(len(doc), np.bool_)
        for which in np.unique(column).tolist():
            name = list(known.columns)[which]
            values = self.docs.compared[name]
            of = np.flatnonzero(column == which)
            found, limit = values.numbers[doc[of]], known.limits[name][place[of]]
            truth[of] = values.known[doc[of]] & (limit[:, 0] <= found) & (found <= limit[:, 1])
        return truth

    def _conditions(self, doc: Numbers, number: Numbers) -> Truths:
        """SQL conditions, each over the documents that all else holds for."""
        known = list(self.index.vocabulary.conditions)
        truth = np.zeros(len(doc), np.bool_)
        rows, own = np.unique(doc, return_inverse=True)
        arrow = self.docs.rows[rows].to_arrow()
        different, which = np.unique(number, return_inverse=True)
        for begin in range(0, len(different), AT_ONCE):
            part = different[begin : begin + AT_ONCE].tolist()
            made = {f"c{n}": known[n] for n in part}
            found = pl.DataFrame(pl.from_arrow(tried(self.docs.evaluator, made, arrow)))
            held = np.stack([each.fill_null(False).to_numpy() for each in found])
            of = np.flatnonzero((which >= begin) & (which < begin + AT_ONCE))
            truth[of] = held[which[of] - begin, own[of]]
        return truth
