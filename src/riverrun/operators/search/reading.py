"""Stored queries, read: from their text to a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from riverrun.operators.search.forms import Form, asked_words, form_in, is_single
from riverrun.operators.search.tree import Between, Either, Every, Kind, Not, Phrase, Term, Tree
from riverrun.schema import Schema
from riverrun.sinks.fulltext.grammar import End, Grammar
from riverrun.sinks.fulltext.layout import Field, kind_of
from riverrun.sinks.fulltext.signs import beginning, word
from riverrun.sinks.fulltext.words import Token

WIDEST = 1_000
"""Words that may stand between those of a phrase."""
LONGEST_NEAR = 40
"""Letters of a word that others are near to."""
LARGEST = {"unsigned": (0, 2**64 - 1)}
WHOLE = (-(2**63), 2**63 - 1)
"""The least and the greatest of numbers, for kinds that are whole ones."""


@dataclass(frozen=True)
class Searched:
    """What queries may name: columns of text, and others that are compared as a whole."""

    columns: tuple[tuple[str, str], ...]
    """All of a document, with their types."""
    text: tuple[str, ...]
    languages: tuple[tuple[str, str], ...]
    stop_words: tuple[str, ...]

    @cached_property
    def fields(self) -> dict[str, Field]:
        kinds = {
            name: "text" if name in self.text else kind_of(type) for name, type in self.columns
        }
        return {
            name: Field(name, type, kind, name)
            for name, type in self.columns
            if (kind := kinds[name]) is not None
        }

    @cached_property
    def analysis(self) -> dict[str, tuple[str | None, bool]]:
        """Of each column of text: its language, and whether stop words are left out."""
        languages = dict(self.languages)
        return {name: (languages.get(name), name in self.stop_words) for name in self.text}

    @cached_property
    def forms(self) -> dict[str, Form]:
        return {name: form_in(*how) for name, how in self.analysis.items()}


def searched(
    schema: Schema,
    text: tuple[str, ...],
    languages: tuple[tuple[str, str], ...],
    stop_words: tuple[str, ...],
) -> Searched:
    columns = tuple((each.name, each.type) for each in schema.visible.columns)
    return _searched(columns, text, languages, stop_words)


@lru_cache(maxsize=64)
def _searched(*parts: Any) -> Searched:
    """One for all queries: what follows from it is worked out once."""
    return Searched(*parts)


class Reader(Grammar[Tree]):
    """Reads one query."""

    def __init__(self, over: Searched, text: str) -> None:
        super().__init__(text, over.fields, over.text, dict(over.columns))
        self.over = over

    def either(self, parts: Sequence[Tree]) -> Tree:
        return Either(tuple(parts))

    def every(self, wanted: Sequence[tuple[bool, Tree]]) -> Tree:
        return Every(tuple(Not(part) if negated else part for negated, part in wanted))

    def everything(self) -> Tree:
        return Every(())

    def words(self, own: Field, token: Token) -> Tree | None:
        return self._words((own.column,), token)

    def words_anywhere(self, token: Token) -> Tree | None:
        return self._words(tuple(self.columns), token)

    def whole(self, own: Field, token: Token, text: str) -> Tree:
        begins = beginning(token)
        if begins is not None:
            return Term("value prefix", ((own.column, begins),))
        return Term("value", ((own.column, text),))

    def equal(self, own: Field, value: Any) -> Tree:
        if own.kind == "boolean":
            return Term("value", ((own.column, str(value).lower()),))
        return Between(own.column, value, value)

    def between(self, own: Field, low: End, high: End) -> Tree:
        if own.kind == "float":
            least = -math.inf if low[0] is None else _moved(low, math.inf)
            most = math.inf if high[0] is None else _moved(high, -math.inf)
            return Between(own.column, least, most)
        lowest, highest = LARGEST.get(own.kind, WHOLE)  # any other: a whole number of 64 bits
        begin = lowest if low[0] is None else low[0] + (not low[1])
        end = highest if high[0] is None else high[0] - (not high[1])
        none = begin > highest or end < lowest or begin > end
        return Either(()) if none else Between(own.column, begin, end)

    def _words(self, columns: tuple[str, ...], token: Token) -> Tree | None:
        wanted = word(token, self.text)
        text = wanted.text
        if wanted.near:
            kind: Kind = "near 2" if wanted.near == 2 else "near 1"
            if len(text) > LONGEST_NEAR:
                self.fail(f"at most {LONGEST_NEAR} letters stand before ~", token.at)
            return _together([self._plain(kind, columns, each) for each in asked_words(text)])
        if wanted.begins or (token.kind == "word" and is_single(text)):
            *before, last = asked_words(text) or [""]
            whole = [self._term(columns, each) for each in before]
            return _together([*whole, self._plain("prefix", columns, last) if last else None])
        if token.slop > WIDEST:
            self.fail(f"at most {WIDEST:,} words stand between those of a phrase", token.at)
        words = asked_words(text)
        if len(words) == 1:
            return self._term(columns, words[0])
        found = [self._phrase(each, words, token.slop) for each in self._alike(columns)]
        known = [each for each in found if each is not None]
        return known[0] if len(known) == 1 else Either(tuple(known)) if known else None

    def _alike(self, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Columns in which the same words are left out, and have the same forms."""
        ways = dict.fromkeys(self.over.analysis[name] for name in columns)
        return [tuple(n for n in columns if self.over.analysis[n] == way) for way in ways]

    def _term(self, columns: tuple[str, ...], word: str) -> Term | None:
        forms = ((name, self.over.forms[name](word)) for name in columns)
        places = tuple((name, form) for name, form in forms if form)
        return Term("word", places) if places else None

    def _plain(self, kind: Kind, columns: tuple[str, ...], word: str) -> Term | None:
        """Not by its stem, which is that of another word."""
        form = plain_form(word)
        return Term(kind, tuple((name, form) for name in columns)) if form else None

    def _phrase(self, columns: tuple[str, ...], words: list[str], slop: int) -> Tree | None:
        terms = [(place, self._term(columns, word)) for place, word in enumerate(words)]
        known = [(place, term) for place, term in terms if term is not None]
        if len(known) < 2:
            return known[0][1] if known else None
        return Phrase(tuple((place - known[0][0], term) for place, term in known), slop)


def plain_form(word: str) -> str:
    return form_in(None, False)(word)


def _moved(end: End, towards: float) -> float:
    """A number that does not belong to a range: the next one does."""
    return float(end[0]) if end[1] else math.nextafter(end[0], towards)


def _together(parts: list[Term | None]) -> Tree | None:
    known = [each for each in parts if each is not None]
    return known[0] if len(known) == 1 else Every(tuple(known)) if known else None
