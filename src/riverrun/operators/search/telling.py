"""What is told of hits: how many parts of a query hold, in which columns, and where in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.operators.search.arrays import Numbers, firsts, from_sizes, ranges
from riverrun.operators.search.covers import PHRASE, RANGE, TERM
from riverrun.operators.search.matching import Matching
from riverrun.operators.search.tokens import Tokens

BEFORE, AFTER = 40, 120
"""Characters of a fragment, before and after the beginning of what was found."""
CUT = "…"

Kinds = npt.NDArray[np.int8]


@dataclass
class Found:
    """Parts of queries that hold in documents."""

    hit: Numbers
    first: Numbers
    """The place of the first word, or value; -1 of what has none."""
    last: Numbers
    columns: Numbers
    """The columns of text that it is in, as bits."""


def told(match: Matching, doc: Numbers, query: Numbers, *, fragments: bool) -> list[pl.Series]:
    """Of each hit: the columns, the score, and perhaps a fragment."""
    found = _found(match, doc, query)
    score = np.bincount(found.hit, minlength=len(doc))
    bits = np.zeros(len(doc), np.int64)
    np.bitwise_or.at(bits, found.hit, found.columns)
    made = [
        pl.Series("fields", _names(match.docs.vocabulary.over.text, bits), pl.List(pl.String)),
        pl.Series("score", score.astype(np.float64)),
    ]
    if fragments:
        made.append(pl.Series("fragment", _fragments(match, doc, found), pl.String))
    return made


def _found(match: Matching, doc: Numbers, query: Numbers) -> Found:
    leaves, docs = match.index.leaves, match.docs
    begin = leaves.clause_from[query]
    size = leaves.clause_from[query + 1] - begin
    hit = np.repeat(np.arange(len(doc)), size)
    leaf = ranges(begin, size)
    kinds, values, doc = leaves.kinds[leaf], leaves.values[leaf], doc[hit]
    first, last = np.full(len(leaf), -1), np.full(len(leaf), -1)
    of = np.flatnonzero(kinds == TERM)
    first[of] = last[of] = docs.first_place(doc[of], values[of])
    of = np.flatnonzero(kinds == PHRASE)
    if len(of):
        phrased = match.phrases(doc[of], values[of], np.full(len(of), -1))
        first[of], last[of] = phrased.first, phrased.last
    held = first >= 0
    of = np.flatnonzero(kinds == RANGE)
    if len(of):
        held[of] = match.literals(leaves, doc[of], leaf[of], np.full(len(of), -1))
    of = np.flatnonzero(held)
    columns = _columns(match, (doc[of], kinds[of], values[of], first[of]))
    return Found(hit[of], first[of], last[of], columns)


def _columns(match: Matching, parts: tuple[Numbers, Kinds, Numbers, Numbers]) -> Numbers:
    """In which columns of text terms are; of phrases the first counts."""
    doc, kinds, values, first = parts
    docs, begins = match.docs, np.array(match.docs.text_from)
    bits = _bit(begins, first)
    if len(begins) > 2:
        of = np.flatnonzero(kinds == TERM)
        for number, begin in enumerate(begins[1:-1].tolist(), start=1):
            place = docs.first_place(doc[of], values[of], begin)
            bits[of] |= np.where(_bit(begins, place) == 1 << number, 1 << number, 0)
    return bits


def _bit(begins: Numbers, place: Numbers) -> Numbers:
    number = np.searchsorted(begins, place, side="right") - 1
    text = (place >= 0) & (number < len(begins) - 1)
    return np.where(text, np.int64(1) << np.maximum(number, 0), 0)


def _names(columns: tuple[str, ...], bits: Numbers) -> pl.Series:
    lists = [
        [name for number, name in enumerate(columns) if each >> number & 1]
        for each in range(int(bits.max(initial=0)) + 1)
    ]
    return pl.Series(lists, dtype=pl.List(pl.String))[bits]


def _fragments(match: Matching, doc: Numbers, found: Found) -> list[str | None]:
    """Of each hit the text around the first part that is in one."""
    made: list[str | None] = [None] * len(doc)
    begins, left = match.docs.text_from, np.ones(len(doc), np.bool_)
    for number, tokens in enumerate(match.docs.texts.values()):
        inside = (found.first >= begins[number]) & (found.first < begins[number + 1])
        of = np.flatnonzero(inside & left[found.hit])
        first, last = found.first[of] - begins[number], found.last[of] - begins[number]
        for hit, text in _marked(tokens, doc, found.hit[of], (first, last)):
            made[hit] = text
        left[found.hit[of]] = False
    return made


def _marked(
    tokens: Tokens, doc: Numbers, hit: Numbers, words: tuple[Numbers, Numbers]
) -> Iterator[tuple[int, str]]:
    """Hits, and the part of the text around the first place of each, with all places marked that
    are in it. `words` are the first and the last one of each place."""
    starts, ends = tokens.starts[words[0]], tokens.ends[words[1]]
    leading = np.flatnonzero(firsts(hit))
    hits = hit[leading]
    begin, stop, low, high = _windows(tokens, doc[hits], starts[leading], ends[leading])
    own = np.repeat(np.arange(len(hits)), np.diff(np.append(leading, len(hit))))
    shown = np.flatnonzero((starts >= begin[own]) & (ends <= stop[own]))
    place = from_sizes(np.bincount(own[shown], minlength=len(hits))).tolist()
    froms, tos, text = starts[shown].tolist(), ends[shown].tolist(), tokens.text
    before, after = np.where(begin > low, CUT, "").tolist(), np.where(stop < high, CUT, "").tolist()
    windows = zip(hits.tolist(), begin.tolist(), stop.tolist(), before, after, strict=True)
    for n, (number, from_, until, left, right) in enumerate(windows):
        first, last = place[n], place[n + 1]
        if last - first == 1:
            start, end = froms[first], tos[first]
            yield number, f"{left}{text[from_:start]}**{text[start:end]}**{text[end:until]}{right}"
            continue
        parts, at = [left], from_
        for start, end in sorted(zip(froms[first:last], tos[first:last], strict=True)):
            if at <= start:
                parts.append(f"{text[at:start]}**{text[start:end]}**")
                at = end
        yield number, f"{''.join(parts)}{text[at:until]}{right}"


def _windows(
    tokens: Tokens, doc: Numbers, start: Numbers, end: Numbers
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The part of each text around what was found, cut between words; and the whole text."""
    low, high = tokens.text_from[doc], tokens.text_from[doc + 1] - 1
    words = np.searchsorted(tokens.starts, np.maximum(start - BEFORE, low))
    begin = np.where(start - BEFORE <= low, low, tokens.starts[words])
    words = np.searchsorted(tokens.starts, start + AFTER, side="right") - 1
    stop = np.where(start + AFTER >= high, high, np.maximum(tokens.ends[words], end))
    stop = np.minimum(stop, np.maximum(start + 2 * AFTER, end))
    return begin, stop, low, high
