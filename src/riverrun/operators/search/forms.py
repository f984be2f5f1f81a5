"""What a word is looked for by: its form in a column of text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from riverrun.operators.search.tokens import cut
from riverrun.sinks.fulltext.analysis import UNSPACED, analyzer

MARKS = re.compile("[\u0300-\u036f]")
"""Accents, which letters of Latin, Greek and Cyrillic have."""
ASCII_WORD = re.compile("[A-Za-z0-9]+")
Form = Callable[[str], str]
"""The form of a word; empty if it is left out."""


@lru_cache(maxsize=64)
def form_in(language: str | None, stop_words: bool) -> Form:
    """How words of a language are looked for: small letters, no accents, the stem."""
    analyzed = analyzer(language, stop_words).analyze

    @lru_cache(maxsize=1 << 20)
    def form(word: str) -> str:
        if UNSPACED.fullmatch(word):
            return word
        found = "".join(analyzed(word))
        return found if found.isascii() else _plain(found)

    return form


def _plain(word: str) -> str:
    """Without accents; letters that differ by their capital only are one, as the two sigmas are."""
    plain = MARKS.sub("", unicodedata.normalize("NFD", word)).casefold()
    return unicodedata.normalize("NFC", plain)


def asked_words(text: str) -> list[str]:
    """The words of a query's text, in their order. The last character of a run without spaces
    ends it only if something follows."""
    if text.isascii():
        return ASCII_WORD.findall(text)
    found = cut([text])
    words = [found.words[code] for code in found.codes.tolist()]
    ends_in_pair = len(words) > 1 and len(words[-2]) == 2 and UNSPACED.fullmatch(words[-2])
    follows = ends_in_pair and found.starts[-1] == found.starts[-2] + 1
    return words[:-1] if follows and UNSPACED.fullmatch(words[-1]) else words


def is_single(word: str) -> bool:
    """One character of a language without spaces: it is the beginning of pairs."""
    return len(word) == 1 and bool(UNSPACED.fullmatch(word))
