"""The words of one column, as documents have them, and the terms that each stands for.

Documents bring the same words again and again: what one stands for is worked out once, and again
when a term comes that it may stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, repeat

import numpy as np

from riverrun.operators.search.arrays import Numbers
from riverrun.operators.search.forms import Form
from riverrun.operators.search.tree import Kind

MOST_WORDS = 1_000_000
"""That are remembered."""

Standing = dict[str, list[int]]
"""The numbers of terms that a text stands for."""


class Lexicon:
    def __init__(self, form: Form | None, plain: Form) -> None:
        """Without a form, texts are whole values."""
        self.form, self.plain = form, plain
        self.exact: Standing = {}
        self.prefixes: dict[int, Standing] = {}
        """By length."""
        self.near: dict[int, Standing] = {}
        """By distance: words with some letters left out."""
        self.near_words: dict[int, tuple[str, int]] = {}
        self.longest = 0
        """Of these words: longer ones of documents are near to none."""
        self._new: dict[int, set[str]] = {}
        self._new_near: list[tuple[str, int]] = []
        """Of prefixes and near words: those that known words were not compared with yet."""
        self._forget()

    def _forget(self) -> None:
        self.known: dict[str, int] = {}
        """Words of documents, by number."""
        self.forms: list[str] = []
        self.plains: list[str] = []
        self.alike: dict[str, list[int]] = {}
        """The words of each form."""
        self.codes = np.empty(1024, np.int64)
        """Of each word: its only term; -1 if it has none; below that, a place in `several`."""
        self.several: list[tuple[int, ...]] = []

    @property
    def used(self) -> bool:
        return bool(self.exact or self.prefixes)

    def add(self, kind: Kind, text: str, number: int) -> None:
        match kind:
            case "word" | "value":
                self.exact.setdefault(text, []).append(number)
                for word in self.alike.get(text, ()):
                    self._note(word)
            case "prefix" | "value prefix":
                self.prefixes.setdefault(len(text), {}).setdefault(text, []).append(number)
                self._new.setdefault(len(text), set()).add(text)
            case "near 1" | "near 2":
                distance = int(kind[-1])
                self.near_words[number] = (text, distance)
                self.longest = max(self.longest, len(text) + distance)
                standing = self.near.setdefault(distance, {})
                for shorter in shortened(text, distance):
                    standing.setdefault(shorter, []).append(number)
                self._new_near.append((text, distance))
            case _:
                raise ValueError(kind)

    def _settle(self) -> None:
        """Words that were known before what they may begin with, or be near to, has come."""
        touched: set[int] = set()
        for length, texts in self._new.items():
            touched |= {word for word, own in enumerate(self.plains) if own[:length] in texts}
        for text, distance in self._new_near:
            low, high = len(text) - distance, len(text) + distance
            touched |= {
                word
                for word, own in enumerate(self.plains)
                if low <= len(own) <= high and is_near(own, text, distance)
            }
        self._new, self._new_near = {}, []
        for word in sorted(touched):
            self._note(word)

    def numbers(self, texts: list[str]) -> tuple[Numbers, Numbers, Numbers]:
        """The only term of each text, -1 if it has none; and of those that have several: pairs of
        the text's number and a term."""
        if self._new or self._new_near:
            self._settle()
        words = self._words(texts)
        if len(words) and words.min() < 0:
            if len(self.known) > MOST_WORDS:
                self._forget()
                words = self._words(texts)
            for n in np.flatnonzero(words < 0).tolist():
                words[n] = self._word(texts[n])
        codes = self.codes[words]
        many = np.flatnonzero(codes < -1)
        lists = [self.several[-2 - code] for code in codes[many].tolist()]
        terms = np.array([number for each in lists for number in each], np.int64)
        return codes, np.repeat(many, [len(each) for each in lists]), terms

    def _words(self, texts: list[str]) -> Numbers:
        """The numbers of words, -1 of those that are new."""
        return np.fromiter(map(self.known.get, texts, repeat(-1)), np.int64, len(texts))

    def _word(self, text: str) -> int:
        number = self.known[text] = len(self.forms)
        form = self.form(text) if self.form else text
        self.forms.append(form)
        self.plains.append(self.plain(text) if self.form else text)
        self.alike.setdefault(form, []).append(number)
        if number >= len(self.codes):
            self.codes = np.append(self.codes, np.empty_like(self.codes))
        self._note(number)
        return number

    def _note(self, word: int) -> None:
        found = self.exact.get(self.forms[word], ())
        if self.prefixes or self.near:
            found = sorted({*found, *self._also(self.plains[word])})
        if len(found) < 2:
            self.codes[word] = found[0] if found else -1
        else:
            self.several.append(tuple(found))
            self.codes[word] = -1 - len(self.several)

    def _also(self, word: str) -> Iterator[int]:
        for length, standing in self.prefixes.items():
            if len(word) >= length:
                yield from standing.get(word[:length], ())
        if len(word) <= self.longest:
            for distance, standing in self.near.items():
                shorter = shortened(word, distance)
                for number in {n for each in shorter for n in standing.get(each, ())}:
                    if is_near(word, *self.near_words[number]):
                        yield number


def shortened(word: str, most: int) -> set[str]:
    """The word with up to so many letters left out: two that are near share one of them."""
    found = {word}
    for count in range(1, min(most, len(word)) + 1):
        for left_out in combinations(range(len(word)), count):
            found.add("".join(c for n, c in enumerate(word) if n not in left_out))
    return found


def is_near(one: str, other: str, most: int) -> bool:
    """Whether so many letters are to be changed, added, left out or swapped at most."""
    if abs(len(one) - len(other)) > most:
        return False
    before, last = list(range(len(other) + 1)), [0] * (len(other) + 1)
    for row, left in enumerate(one, start=1):
        now = [row]
        for column, right in enumerate(other, start=1):
            found = min(before[column] + 1, now[-1] + 1, before[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                found = min(found, last[column - 2] + 1)
            now.append(found)
        before, last = now, before
    return before[-1] <= most
