"""What people ask, as a query of tantivy.

    words "a phrase" title:word price:>10 at:[2026-01-01 TO 2026-02-01] prefix* near~ a OR (b -c)

All words must be there; OR, NOT, -, + and brackets as usual. Words are looked for in all columns of
text, or in the one that is named; other columns are compared as a whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from tantivy import FieldType, Occur, Query

from riverrun.search.values import BadValue, parsed
from riverrun.search.words import Token, tokens, wrong
from riverrun.sinks.fulltext.analysis import UNSPACED, asked
from riverrun.sinks.fulltext.layout import Field, Layout

TYPES = {
    "integer": FieldType.Integer,
    "time": FieldType.Integer,
    "clock": FieldType.Integer,
    "unsigned": FieldType.Unsigned,
    "float": FieldType.Float,
}
"""Fields that have an order."""
COMPARED = re.compile(r"(>=|<=|>|<)(.+)", re.DOTALL)
RANGE = re.compile(r"([\[{])\s*(.+?)\s+TO\s+(.+?)\s*([\]}])", re.DOTALL)
WHOLE_WORD, BEGINNING = ".*", "*"
DEEPEST = 100
"""Brackets inside of brackets."""
LEAST = {"unsigned": 0, "float": -math.inf}
"""Of fields that have an order; others begin with the least whole number of 64 bits."""

Mark = Callable[[str], bool]
"""Whether a word, as it is indexed, is one that was looked for."""


@dataclass
class Asked:
    """A query, and what it looks for in each column of text."""

    layout: Layout
    text: str
    columns: tuple[str, ...]
    marks: dict[str, list[Mark]] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        self.left, self.negated, self.depth = tokens(self.text), 0, 0
        found = self._either()
        if self.left:
            self._fail("a bracket closes that was never opened", self.left[0].at)
        if found is None:
            self._fail("the query has no word to look for", 0, "stop words alone find nothing")
        return found

    def _either(self) -> Query | None:
        parts = [self._all()]
        while self.left and self.left[0].kind == "or":
            operator = self.left.pop(0)
            if not self._more():
                self._fail("OR stands before nothing", operator.at)
            parts.append(self._all())
        known = [part for part in parts if part is not None]
        return known[0] if len(known) == 1 else _joined(Occur.Should, known)

    def _all(self) -> Query | None:
        wanted: list[tuple[Occur, Query]] = []
        if not self._more():
            self._fail("something to look for is missing", self._place())
        while self._more():
            token = self.left[0]
            if token.kind in ("and", "plus", "not"):
                self.left.pop(0)
                if not self._more():
                    self._fail(f"{token.text} stands before nothing", token.at)
            if token.kind == "and":
                continue
            self.negated += token.kind == "not"
            found = self._one()
            self.negated -= token.kind == "not"
            if found is not None:
                wanted.append((Occur.MustNot if token.kind == "not" else Occur.Must, found))
        if not wanted:
            return None
        if all(occur == Occur.MustNot for occur, _ in wanted):
            wanted.append((Occur.Must, Query.all_query()))
        return wanted[0][1] if len(wanted) == 1 else Query.boolean_query(wanted)

    def _more(self) -> bool:
        return bool(self.left) and self.left[0].kind not in ("or", "close")

    def _place(self) -> int:
        return self.left[0].at if self.left else len(self.text)

    def _one(self) -> Query | None:
        token = self.left.pop(0)
        if token.kind == "open":
            self.depth += 1
            if self.depth > DEEPEST:
                self._fail(f"more than {DEEPEST} brackets are inside of each other", token.at)
            found = self._either()
            self.depth -= 1
            if not self.left:
                self._fail("a bracket does not end", token.at)
            self.left.pop(0)
            return found
        if token.kind != "field":
            return self._anywhere(token)
        if not self.left or self.left[0].kind not in ("word", "phrase", "range"):
            self._fail(f"{token.text} is compared with nothing", token.at)
        return self._in(self._field(token), self.left.pop(0))

    def _field(self, token: Token) -> Field:
        name = token.text.strip("`")
        if name not in self.layout.fields:
            known = dict(self.layout.columns)
            fact = (
                f"{name!r} cannot be searched" if name in known else f"there is no column {name!r}"
            )
            names = ", ".join(self.layout.fields)
            self._fail(fact, token.at, f'columns: {names}; a colon in a word needs quotes: "…"')
        return self.layout.fields[name]

    def _anywhere(self, token: Token) -> Query | None:
        if token.kind == "range":
            self._fail("a range is one of a column", token.at, "e.g. price:[1 TO 5]")
        if token.kind == "word" and token.text == BEGINNING:
            return Query.all_query()
        if token.kind not in ("word", "phrase"):
            self._fail(f"{token.text} means nothing here", token.at)
        found = [self._in(self.layout.fields[name], token) for name in self.columns]
        known = [query for query in found if query is not None]
        return known[0] if len(known) == 1 else _joined(Occur.Should, known)

    def _in(self, own: Field, token: Token) -> Query | None:
        if token.kind == "range":
            return self._range(own, token)
        if token.kind == "word" and (compared := COMPARED.fullmatch(token.text)):
            return self._compared(own, token, *compared.groups())
        if own.kind == "text":
            return self._words(own, token)
        text = _unescaped(token.text)
        if own.kind == "word":
            return self._whole(own, token, text)
        return Query.term_query(self.layout.schema, own.name, self._value(own, token, text))

    def _whole(self, own: Field, token: Token, text: str) -> Query:
        if token.kind == "word" and text.endswith("*"):
            beginning = _escaped(text.removesuffix("*"))
            return Query.regex_query(self.layout.schema, own.name, f"{beginning}{WHOLE_WORD}")
        return Query.term_query(self.layout.schema, own.name, text)

    def _words(self, own: Field, token: Token) -> Query | None:
        schema, text = self.layout.schema, _unescaped(token.text)
        if token.kind == "word" and (near := re.fullmatch(r"(.+)~([12]?)", text)):
            return self._near(own, near[1], int(near[2] or 1))
        beginning = token.kind == "word" and (text.endswith("*") or _single(text))
        if beginning:
            return self._beginning(own, text.removesuffix("*"))
        found = own.analyzer.pre_tokenize(asked(text)).tokens
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
        *before, last = plain.analyze(text) or [""]
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
        return _joined(Occur.Must, near)

    def _compared(self, own: Field, token: Token, sign: str, text: str) -> Query:
        value, equal = self._ordered(own, token, _unescaped(text)), sign.endswith("=")
        if sign.startswith(">"):
            return self._between(own, (value, equal), (None, True))
        return self._between(own, (None, True), (value, equal))

    def _range(self, own: Field, token: Token) -> Query:
        found = RANGE.fullmatch(token.text)
        if found is None:
            self._fail("a range is [from TO to]", token.at, "with {…} the ends do not belong to it")
        low, high = (self._ordered(own, token, end, open_end=True) for end in found.group(2, 3))
        return self._between(own, (low, found[1] == "["), (high, found[4] == "]"))

    def _between(self, own: Field, low: tuple[Any, bool], high: tuple[Any, bool]) -> Query:
        """Two ends, and whether they belong to it; None is no end."""
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

    def _ordered(self, own: Field, token: Token, text: str, *, open_end: bool = False) -> Any:
        if own.kind not in TYPES:
            self._fail(
                f"{own.column!r} has no order", token.at, "numbers, times and dates have one"
            )
        return None if open_end and text == "*" else self._value(own, token, text.strip('"'))

    def _value(self, own: Field, token: Token, text: str) -> Any:
        try:
            return parsed(own, text)
        except BadValue as error:
            self._fail(f"{own.column!r} is {error}, not {text!r}", token.at)

    def _mark(self, own: Field, mark: Mark) -> None:
        if not self.negated:
            self.marks.setdefault(own.column, []).append(mark)

    def _fail(self, fact: str, at: int, hint: str | None = None) -> NoReturn:
        raise wrong(fact, self.text, at, hint)


def _joined(occur: Occur, parts: Sequence[Query]) -> Query | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return Query.boolean_query([(occur, part) for part in parts])


def _single(text: str) -> bool:
    """One character of a language without spaces: it is the beginning of pairs."""
    return len(text) == 1 and bool(UNSPACED.fullmatch(text))


def _unescaped(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        text = text[1:-1]
    return re.sub(r"\\(.)", r"\1", text)


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
