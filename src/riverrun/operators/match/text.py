"""The text of a pattern: its words, each with its place, and errors that point at one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from riverrun.errors import Location, ProgramError

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>\{-|-\}|.)""",
    re.VERBOSE | re.DOTALL,
)
OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    kind: str
    """text, quoted, number, word or sign."""
    text: str
    begin: int
    end: int

    @property
    def word(self) -> str:
        """In capitals, as keywords are compared; empty if it is no bare word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """The name that it is, if it is one."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text if self.kind == "word" else None


@dataclass(frozen=True)
class Text:
    """What the program says, and on which of its lines."""

    text: str
    at: Location

    def tokens(self) -> list[Token]:
        found = []
        for each in _TOKEN.finditer(self.text):
            kind = each.lastgroup or ""
            if kind == "sign" and each[0] in "'\"":
                raise self.error("a quote is not closed", each.start())
            if kind != "space":
                found.append(Token(kind, each[0], each.start(), each.end()))
        return found

    def parameter(self, token: Token) -> str | None:
        """The name of the parameter that a word is: those of live rules have some."""
        return None

    def value(self, parameter: str) -> Any:
        """What a parameter stands for; None if that is not known yet."""
        return None

    def error(self, fact: str, place: int, hint: str | None = None) -> ProgramError:
        """The error at a place: the line of the text, and a mark under it."""
        place = min(max(place, 0), len(self.text))
        before = self.text[:place]
        line, column = before.count("\n") + 1, place - (before.rfind("\n") + 1) + 1
        shown = self.text.split("\n")[line - 1] if self.text else ""
        body = shown.lstrip()
        mark = " " * max(column - 1 - (len(shown) - len(body)), 0) + "^"
        return ProgramError(
            fact,
            where=f"{self.at}, line {line}, column {column} of the pattern",
            got=f"{body}\n       {mark}",
            hint=hint,
        )


def depths(tokens: list[Token]) -> list[int]:
    """How many brackets are open at each token; one that closes is as deep as its opening."""
    found, depth = [], 0
    for token in tokens:
        closes = token.kind == "sign" and (token.text in CLOSING or token.text == "-}")
        depth -= closes
        found.append(depth)
        depth += token.kind == "sign" and (token.text in OPENING or token.text == "{-")
    return found


def listed(tokens: list[Token]) -> list[list[Token]]:
    """What stands between commas outside of brackets."""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if depth == 0 and token.text == "," and token.kind == "sign":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
