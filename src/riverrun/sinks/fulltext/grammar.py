"""What people ask of texts, read: `words "a phrase" title:word price:>10 prefix* a OR (b -c)`.

All words must be there; OR, NOT, -, + and brackets as usual. Words are looked for in all columns of
text, or in the one that is named; other columns are compared as a whole. What is made of the parts
is for those who derive from it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NoReturn, TypeVar

from riverrun.sinks.fulltext.layout import Field
from riverrun.sinks.fulltext.signs import unescaped
from riverrun.sinks.fulltext.values import BadValue, parsed
from riverrun.sinks.fulltext.words import Token, tokens, wrong

ORDERED = ("integer", "time", "clock", "unsigned", "float")
"""Kinds of fields that have an order."""
COMPARED = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
RANGE = re.compile(r"([\[{])\s*(.+?)\s+TO\s+(.+?)\s*([\]}])", re.DOTALL)
SIGNS = (">=", "<=", ">", "<")
EVERYTHING = "*"
DEEPEST = 100
"""Brackets inside of brackets."""

End = tuple[Any, bool]
"""Of a range: its value, None if there is none, and whether it belongs to it."""
Part = TypeVar("Part")


class Grammar(ABC, Generic[Part]):
    """Reads one query."""

    def __init__(
        self,
        text: str,
        fields: Mapping[str, Field],
        columns: Sequence[str],
        known: Collection[str],
    ) -> None:
        """`columns` are those that words are looked for in; `known` all that there are."""
        self.text, self.fields, self.columns, self.known = text, fields, columns, known
        self.left: list[Token] = []
        self.negated, self.depth = 0, 0

    @abstractmethod
    def either(self, parts: Sequence[Part]) -> Part:
        """One of at least two."""

    @abstractmethod
    def every(self, wanted: Sequence[tuple[bool, Part]]) -> Part:
        """All of them, or for True not."""

    @abstractmethod
    def everything(self) -> Part: ...

    @abstractmethod
    def words(self, own: Field, token: Token) -> Part | None:
        """In a column of text; None if no word is left to look for."""

    def words_anywhere(self, token: Token) -> Part | None:
        found = [self._in(self.fields[name], token) for name in self.columns]
        return self._joined([each for each in found if each is not None])

    @abstractmethod
    def whole(self, own: Field, token: Token, text: str) -> Part:
        """A text as a whole."""

    @abstractmethod
    def equal(self, own: Field, value: Any) -> Part: ...

    @abstractmethod
    def between(self, own: Field, low: End, high: End) -> Part: ...

    def read(self) -> Part:
        self.left, self.negated, self.depth = tokens(self.text), 0, 0
        found = self._either()
        if self.left:
            self.fail("a bracket closes that was never opened", self.left[0].at)
        if found is None:
            hint = "words are letters and digits; stop words alone find nothing"
            self.fail("the query has no word to look for", 0, hint)
        return found

    def _either(self) -> Part | None:
        parts = [self._all()]
        while self.left and self.left[0].kind == "or":
            operator = self.left.pop(0)
            if not self._more():
                self.fail("OR stands before nothing", operator.at)
            parts.append(self._all())
        return self._joined([part for part in parts if part is not None])

    def _joined(self, parts: list[Part]) -> Part | None:
        if len(parts) < 2:
            return parts[0] if parts else None
        return self.either(parts)

    def _all(self) -> Part | None:
        wanted: list[tuple[bool, Part]] = []
        if not self._more():
            self.fail("something to look for is missing", self._place())
        while self._more():
            token = self.left[0]
            if token.kind in ("and", "plus", "not"):
                self.left.pop(0)
                if not self._more():
                    self.fail(f"{token.text} stands before nothing", token.at)
            if token.kind == "and":
                continue
            self.negated += token.kind == "not"
            found = self._one()
            self.negated -= token.kind == "not"
            if found is not None:
                wanted.append((token.kind == "not", found))
        if not wanted:
            return None
        if len(wanted) == 1 and not wanted[0][0]:
            return wanted[0][1]
        return self.every(wanted)

    def _more(self) -> bool:
        return bool(self.left) and self.left[0].kind not in ("or", "close")

    def _place(self) -> int:
        return self.left[0].at if self.left else len(self.text)

    def _one(self) -> Part | None:
        token = self.left.pop(0)
        if token.kind == "open":
            self.depth += 1
            if self.depth > DEEPEST:
                self.fail(f"more than {DEEPEST} brackets are inside of each other", token.at)
            found = self._either()
            self.depth -= 1
            if not self.left:
                self.fail("a bracket does not end", token.at)
            self.left.pop(0)
            return found
        if token.kind != "field":
            return self._anywhere(token)
        own = self._field(token)
        return self._in(own, self._compared_with(token, own))

    def _compared_with(self, field: Token, own: Field) -> Token:
        """What stands behind a column: `-5` is a number, and a time may be in quotes."""
        found = self.left.pop(0) if self.left else field
        signed = found.kind in ("not", "plus") and own.kind in ORDERED
        if signed and self._follows(found, "word"):
            return replace(found, kind="word", text=f"{found.text}{self.left.pop(0).text}")
        if found.text in SIGNS and self._follows(found, "phrase"):
            return replace(found, text=f"{found.text}{self.left.pop(0).text}")
        if found.kind not in ("word", "phrase", "range") or found.text in SIGNS:
            hint = 'a value with a sign before it stands in quotes: "-5"'
            self.fail(f"{field.text} is compared with nothing", field.at, hint)
        if found.slop and own.kind != "text":
            self.fail("~ is of words in a text", found.at + len(found.text))
        return found

    def _follows(self, token: Token, kind: str) -> bool:
        """Whether such a token is next, without a space between."""
        end = token.at + len(token.text)
        return bool(self.left) and (self.left[0].kind, self.left[0].at) == (kind, end)

    def _field(self, token: Token) -> Field:
        name = token.text.strip("`")
        if name not in self.fields:
            there = name in self.known
            fact = f"{name!r} cannot be searched" if there else f"there is no column {name!r}"
            names = ", ".join(self.fields)
            self.fail(fact, token.at, f'columns: {names}; a colon in a word needs quotes: "…"')
        return self.fields[name]

    def _anywhere(self, token: Token) -> Part | None:
        if token.kind == "range":
            self.fail("a range is one of a column", token.at, "e.g. price:[1 TO 5]")
        if token.kind == "word" and token.text == EVERYTHING:
            return self.everything()
        if token.kind not in ("word", "phrase"):
            self.fail(f"{token.text} means nothing here", token.at)
        if token.kind == "word" and COMPARED.fullmatch(token.text):
            self.fail("a comparison is one of a column", token.at, "e.g. price:>5")
        return self.words_anywhere(token)

    def _in(self, own: Field, token: Token) -> Part | None:
        if token.kind == "range":
            return self._range(own, token)
        if token.kind == "word" and (compared := COMPARED.fullmatch(token.text)):
            return self._compared(own, token, *compared.groups())
        if own.kind == "text":
            return self.words(own, token)
        text = unescaped(token.text)
        if own.kind == "word":
            return self.whole(own, token, text)
        return self.equal(own, self._value(own, token, text))

    def _compared(self, own: Field, token: Token, sign: str, text: str) -> Part:
        value, equal = self._ordered(own, token, unescaped(text)), sign.endswith("=")
        if sign.startswith(">"):
            return self.between(own, (value, equal), (None, True))
        return self.between(own, (None, True), (value, equal))

    def _range(self, own: Field, token: Token) -> Part:
        found = RANGE.fullmatch(token.text)
        if found is None:
            self.fail("a range is [from TO to]", token.at, "with {…} the ends do not belong to it")
        low, high = (self._ordered(own, token, end, open_end=True) for end in found.group(2, 3))
        return self.between(own, (low, found[1] == "["), (high, found[4] == "]"))

    def _ordered(self, own: Field, token: Token, text: str, *, open_end: bool = False) -> Any:
        if own.kind not in ORDERED:
            self.fail(f"{own.column!r} has no order", token.at, "numbers, times and dates have one")
        return None if open_end and text == "*" else self._value(own, token, text.strip('"'))

    def _value(self, own: Field, token: Token, text: str) -> Any:
        try:
            return parsed(own, text)
        except BadValue as error:
            self.fail(f"{own.column!r} is {error}, not {text!r}", token.at)

    def fail(self, fact: str, at: int, hint: str | None = None) -> NoReturn:
        raise wrong(fact, self.text, at, hint)
