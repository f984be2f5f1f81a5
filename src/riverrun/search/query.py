"""What people ask, as a query of tantivy, and what it looks for in each column of text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tantivy import FieldType, Occur, Query

from riverrun.sinks.fulltext.analysis import UNSPACED, asked, folded
from riverrun.sinks.fulltext.grammar import End, Grammar
from riverrun.sinks.fulltext.layout import Field, Layout
from riverrun.sinks.fulltext.signs import beginning, word
from riverrun.sinks.fulltext.words import Token

TYPES = {
    "integer": FieldType.Integer,
    "time": FieldType.Integer,
    "clock": FieldType.Integer,
    "unsigned": FieldType.Unsigned,
    "float": FieldType.Float,
}
"""Fields that have an order."""
WHOLE_WORD = ".*"
LEAST = {"unsigned": 0, "float": -math.inf}
"""Of fields that have an order; others begin with the least whole number of 64 bits."""

Mark = Callable[[str], bool]
"""Whether a word, as it is indexed, is one that was looked for."""


class Asked(Grammar[Query]):
    """A query, and what it looks for in each column of text."""

    def __init__(self, layout: Layout, text: str, columns: tuple[str, ...]) -> None:
        super().__init__(text, layout.fields, columns, dict(layout.columns))
        self.layout = layout
        self.marks: dict[str, list[Mark]] = {}

    @property
    def query(self) -> Query:
        return self.read()

    def either(self, parts: Sequence[Query]) -> Query:
        return _joined(Occur.Should, parts)

    def every(self, wanted: Sequence[tuple[bool, Query]]) -> Query:
        parts = [(Occur.MustNot if negated else Occur.Must, part) for negated, part in wanted]
        if all(negated for negated, _ in wanted):
            parts.append((Occur.Must, Query.all_query()))
        return Query.boolean_query(parts)

    def everything(self) -> Query:
        return Query.all_query()

    def equal(self, own: Field, value: Any) -> Query:
        return Query.term_query(self.layout.schema, own.name, value)

    def whole(self, own: Field, token: Token, text: str) -> Query:
        begins = beginning(token)
        if begins is not None:
            pattern = f"{_escaped(begins)}{WHOLE_WORD}"
            return Query.regex_query(self.layout.schema, own.name, pattern)
        return Query.term_query(self.layout.schema, own.name, text)

    def words(self, own: Field, token: Token) -> Query | None:
        schema, wanted = self.layout.schema, word(token, self.text)
        if wanted.near:
            return self._near(own, wanted.text, wanted.near)
        if wanted.begins or (token.kind == "word" and _single(wanted.text)):
            return self._beginning(own, wanted.text)
        found = own.analyzer.pre_tokenize(asked(wanted.text)).tokens
        for each in found:
            self._mark(own, each.text.__eq__)
        if len(found) < 2:
            return Query.term_query(schema, own.name, found[0].text) if found else None
        first = found[0].position
        placed: list[Any] = [(each.position - first, each.text) for each in found]
        return Query.phrase_query(schema, own.name, placed, token.slop)

    def _beginning(self, own: Field, text: str) -> Query | None:
        """Not by its stem, which is that of another word; the last of several words counts."""
        plain = Field(own.column, own.type, own.kind, own.name).analyzer
        *before, last = plain.analyze(folded(text)) or [""]
        if not last:
            return None
        self._mark(own, lambda word: word.startswith(last))
        pattern = f"{_escaped(last)}{WHOLE_WORD}"
        found = Query.regex_query(self.layout.schema, own.name, pattern)
        others = [Query.term_query(self.layout.schema, own.name, each) for each in before]
        return _joined(Occur.Must, [*others, found])

    def _near(self, own: Field, text: str, distance: int) -> Query | None:
        found = own.analyzer.analyze(asked(text))
        near = [
            Query.fuzzy_term_query(self.layout.schema, own.name, each, distance) for each in found
        ]
        for each in found:
            self._mark(own, partial(_is_near, each, distance))
        return _joined(Occur.Must, near) if near else None

    def between(self, own: Field, low: End, high: End) -> Query:
        if low[0] is None and high[0] is None:  # any value
            low = (LEAST.get(own.kind, -(2**63)), True)  # any other: a whole number
        return Query.range_query(
            self.layout.schema,
            own.name,
            TYPES[own.kind],
            lower_bound=low[0],
            upper_bound=high[0],
            include_lower=low[1] or low[0] is None,
            include_upper=high[1] or high[0] is None,
        )

    def _mark(self, own: Field, mark: Mark) -> None:
        if not self.negated:
            self.marks.setdefault(own.column, []).append(mark)


def _joined(occur: Occur, parts: Sequence[Query]) -> Query:
    if len(parts) == 1:
        return parts[0]
    return Query.boolean_query([(occur, part) for part in parts])


def _single(text: str) -> bool:
    """One character of a language without spaces: it is the beginning of pairs."""
    return len(text) == 1 and bool(UNSPACED.fullmatch(text))


def _escaped(text: str) -> str:
    """As a pattern that means itself."""
    return re.sub(r"([^\w\s])", r"\\\1", text)


def _is_near(wanted: str, distance: int, word: str) -> bool:
    return _distance(word, wanted) <= distance


def _distance(one: str, other: str) -> int:
    """How many letters are to be changed, added, left out or swapped."""
    before, last = list(range(len(other) + 1)), [0] * (len(other) + 1)
    for row, left in enumerate(one, start=1):
        now = [row]
        for column, right in enumerate(other, start=1):
            found = min(before[column] + 1, now[-1] + 1, before[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                found = min(found, last[column - 2] + 1)
            now.append(found)
        before, last = now, before
    return before[-1]
