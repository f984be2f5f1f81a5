"""Where the words that were looked for stand in a text, and the part of it that shows most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from riverrun.search.query import Mark
from riverrun.sinks.fulltext.analysis import UNSPACED, composed, folded, pairs
from riverrun.sinks.fulltext.layout import Field

AROUND = 160
"""Characters of a fragment."""
CUT = "…"

Span = tuple[int, int]


@dataclass(frozen=True)
class Fragment:
    """A part of a text, with the places that matched."""

    text: str
    marks: tuple[Span, ...]

    def marked(self, before: str = "**", after: str = "**") -> str:
        parts, at = [], 0
        for start, end in self.marks:
            parts += [self.text[at:start], before, self.text[start:end], after]
            at = end
        return "".join([*parts, self.text[at:]])


def fragment(field: Field, text: str, marks: Sequence[Mark]) -> Fragment | None:
    """None if nothing in the text was looked for."""
    text = composed(text)
    spans = _merged(sorted(_spans(field, text, marks)))
    if not spans:
        return None
    begin, end = _window(text, spans)
    inside = [(a - begin, b - begin) for a, b in spans if begin <= a and b <= end]
    left, right = CUT if begin else "", CUT if end < len(text) else ""
    moved = tuple((a + len(left), b + len(left)) for a, b in inside)
    return Fragment(f"{left}{text[begin:end]}{right}", moved)


def _spans(field: Field, text: str, marks: Sequence[Mark]) -> Iterator[Span]:
    for token in field.analyzer.pre_tokenize(folded(text)).tokens:
        if any(mark(token.text) for mark in marks):
            yield token.char_offset_from, token.char_offset_to
    for run in UNSPACED.finditer(text):
        for place, pair in enumerate(pairs(run[0]), start=run.start()):
            if any(mark(pair) for mark in marks):
                yield place, place + len(pair)


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _window(text: str, spans: list[Span]) -> Span:
    """As many marks as fit, from the first place that has most; cut between words."""
    if len(text) <= AROUND:
        return 0, len(text)
    counts = [sum(a <= each[0] and each[1] <= a + AROUND for each in spans) for a, _ in spans]
    first = spans[counts.index(max(counts))]
    begin = max(0, min(first[0] - AROUND // 4, len(text) - AROUND))
    end = max(begin + AROUND, first[1])
    space = text.find(" ", begin, first[0])
    begin = space + 1 if begin and space >= 0 else begin
    space = text.rfind(" ", first[1], end)
    return begin, space if end < len(text) and space > first[1] else min(end, len(text))
