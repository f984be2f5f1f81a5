"""A query cut into words, each with its place: errors point at it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from riverrun.errors import InputError

TOKEN = re.compile(
    r"""\s*(?:
    (?P<open>\()|(?P<close>\))|
    (?P<phrase>"(?:[^"\\]|\\.)*")(?P<slop>~\d+(?![^\s()]))?|
    (?P<range>[\[{][^\]}]*[\]}])|
    (?P<field>(?:[^\W\d][\w.-]*|`[^`]+`)):(?=\S)|
    (?P<not>-(?=\S))|(?P<plus>\+(?=\S))|
    (?P<word>(?:\\.|[^\s()"\[\]{}\\])+)
    )""",
    re.VERBOSE,
)
HALF = re.compile("[\ud800-\udfff]")
"""Half of a letter."""
KINDS = ("open", "close", "phrase", "range", "field", "not", "plus", "word")
OPERATORS = {"AND": "and", "OR": "or", "NOT": "not"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int
    """Where it begins."""
    slop: int = 0


def tokens(query: str) -> list[Token]:
    found, at, end = [], 0, len(query.rstrip())
    if HALF.search(query):
        raise InputError("the query is not readable text", hint="is it UTF-8?")
    while at < end:
        match = TOKEN.match(query, at)
        if match is None:
            raise _unreadable(query, at + len(query[at:]) - len(query[at:].lstrip()))
        kind = next(each for each in KINDS if match[each] is not None)
        text, begin = match[kind], match.start(kind)
        if kind == "word" and text in OPERATORS:
            kind = OPERATORS[text]
        found.append(Token(kind, text, begin, _slop(match["slop"])))
        at = match.end()
    return found


def _slop(text: str | None) -> int:
    """No text has so many words that more digits would make a difference."""
    return int(text[1:10]) if text else 0


def _unreadable(query: str, at: int) -> InputError:
    open_range = "a range does not end", "[from TO to]; with {…} the ends do not belong to it"
    facts = {
        '"': ("a phrase does not end", 'it ends with another quote: "…"'),
        "[": open_range,
        "{": open_range,
    }
    other = f"{query[at]!r} means nothing here", 'put it in quotes to look for it: "…"'
    fact, hint = facts.get(query[at], other)  # any other: a sign that means nothing here
    return wrong(fact, query, at, hint)


def wrong(fact: str, query: str, at: int, hint: str | None = None) -> InputError:
    """An error at a place of a query."""
    return InputError(
        fact,
        where=f"character {at + 1} of the query",
        got=f"{query}\n       {' ' * at}^",
        hint=hint,
    )
