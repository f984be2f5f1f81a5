"""How text becomes words: the same for what is indexed, what is asked, and what is marked."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

WORD = r"[\p{L}\p{N}\p{M}]+"
"""Letters and digits, with the marks that belong to them."""
LONGEST = 1000
"""Bytes of a word: longer ones, such as encoded pictures, are left out."""

UNSPACED = re.compile(
    "[\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]+"
)
"""Chinese, Japanese and Korean: words are not told by spaces, so every two characters are one."""
_TWINS = re.compile(
    "|".join(
        letter
        for letter in map(chr, range(0x80, 0x2000))
        if letter == letter.lower() != letter.casefold() and len(letter.casefold()) == 1
    )
)
"""Small letters that are not the one that their capital becomes."""


@cache
def analyzer(language: str | None, stop_words: bool) -> TextAnalyzer:
    """Accents go before stems: a word gives the same with and without them."""
    made = TextAnalyzerBuilder(Tokenizer.regex(WORD)).filter(Filter.remove_long(LONGEST))
    made = made.filter(Filter.lowercase())
    if stop_words and language:
        made = made.filter(Filter.stopword(language))
    made = made.filter(Filter.ascii_fold())
    return (made.filter(Filter.stemmer(language)) if language else made).build()


def composed(text: str) -> str:
    """A letter and its accent are one character, however they were written."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """Small letters that have one capital are one, as the two sigmas are; the text is as long as
    before: places in it are those of what is shown."""
    return text if text.isascii() else _TWINS.sub(lambda letter: letter[0].casefold(), text)


def indexed(text: str) -> str:
    """Text as the analyzer is given it: runs without spaces as pairs, and their last character."""
    if text.isascii():
        return text
    return UNSPACED.sub(lambda run: f" {' '.join(pairs(run[0]))} ", folded(composed(text)))


def asked(text: str) -> str:
    """As `indexed`. The last character of a run ends it only if something follows."""
    found = indexed(text)
    run = UNSPACED.search(composed(text)[-2:])
    return found.rstrip()[:-1] if run and len(run[0]) == 2 else found


def pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run))]
