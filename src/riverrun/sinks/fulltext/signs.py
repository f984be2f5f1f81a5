"""The signs of a bare word: `strea*`, `straem~2`. Where one means nothing, the query is wrong:
it is not taken for something else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from riverrun.sinks.fulltext.words import Token, wrong

ESCAPED = re.compile(r"\\(.)", re.DOTALL)
SIGN = re.compile(r"\*$|~[12]?$")
MISPLACED = (
    (r"^~|~(?![12]?$)", "~ stands behind a word, alone or with 1 or 2", 'of a phrase: "a b"~3'),
    (r"^\*|\*(?!$)", "* stands behind the beginning of a word", "as in strea*"),
    (r"^:|:$", ": stands between a column and what is looked for", "as in title:stream"),
    (r"^`", "a name in backquotes is that of a column", "as in `unit price`:>5"),
    (r"^!+\w", "! means nothing here", "-word or NOT word"),
    (r"^(&&|\|\|)$", "the words for it are AND and OR", "as in stream OR table"),
    (r"\^[\d.]+$", "words have no weight", "leave it out"),
)
"""Signs of this language, or of others, where they mean nothing."""


@dataclass(frozen=True)
class Word:
    """What is looked for in texts."""

    text: str
    begins: bool = False
    """Words that begin so."""
    near: int = 0
    """Words of which so many letters may differ."""


def word(token: Token, query: str) -> Word:
    if token.kind != "word":
        return Word(unescaped(token.text))
    bare = _bare(token.text)
    for pattern, fact, hint in MISPLACED:
        if found := re.search(pattern, bare):
            raise wrong(fact, query, token.at + found.start(), f"{hint}; in quotes it is text")
    sign = found[0] if (found := SIGN.search(bare)) else ""
    text = unescaped(token.text.removesuffix(sign))
    return Word(text, sign == "*", int(sign[1:] or 1) if sign.startswith("~") else 0)


def beginning(token: Token) -> str | None:
    """What the values begin with that a token stands for; None if it is one as a whole."""
    begins = token.kind == "word" and _bare(token.text).endswith("*")
    return unescaped(token.text[:-1]) if begins else None


def unescaped(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        text = text[1:-1]
    return ESCAPED.sub(r"\1", text)


def _bare(text: str) -> str:
    """As long, with letters for signs that have lost their meaning."""
    return ESCAPED.sub("aa", text)
