"""The regular expression of a pattern, as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from riverrun.operators.match.text import Text, Token


@dataclass(frozen=True)
class Variable:
    """One row for which the variable's condition holds."""

    name: str
    begin: int = 0


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Alternatives:
    """The first is preferred."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Permutation:
    """All parts, in any order; that in which they are written is preferred."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    body: Tree
    low: int
    high: int | None
    greedy: bool = True


@dataclass(frozen=True)
class Excluded:
    """Its rows are matched, but not given."""

    body: Tree


@dataclass(frozen=True)
class Timeout:
    """No row: that the time of the match is over."""


Tree = Variable | Sequence | Alternatives | Permutation | Repeat | Excluded | Timeout

QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
DIGITS = 9
"""Of a number of repetitions."""
ANCHORS = {"^": "beginning", "$": "end"}


def tree_of(source: Text, tokens: list[Token]) -> Tree:
    """The tree of what stands in the brackets of PATTERN."""
    parser = _Parser(source, tokens)
    tree = parser.alternatives()
    if parser.here is not None:
        raise parser.wrong()
    return tree


class _Parser:
    def __init__(self, source: Text, tokens: list[Token]) -> None:
        self.source, self.tokens, self.next = source, tokens, 0
        self.end = tokens[-1].end if tokens else len(source.text)
        self.open = False
        """Whether some number of repetitions is not known yet."""

    @property
    def here(self) -> Token | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def wrong(
        self, fact: str = "this is not expected in a pattern", hint: str | None = None
    ) -> Exception:
        return self.source.error(fact, self.here.begin if self.here else self.end, hint)

    def sign(self) -> str:
        return self.here.text if self.here and self.here.kind == "sign" else ""

    def take(self, *signs: str) -> bool:
        found = self.sign() in signs
        self.next += found
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wrong(f"{sign} is expected")

    def alternatives(self) -> Tree:
        parts = [self.sequence()]
        while self.take("|"):
            begin = self.here.begin if self.here else self.end
            part = self.sequence()
            if _same(part, parts):
                raise self.source.error("this alternative stands here twice", begin)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def sequence(self) -> Tree:
        parts = []
        while self.here is not None and self.sign() not in ("|", ")", ",", "-}"):
            parts.append(self.repeated(self.primary()))
        if not parts:
            raise self.wrong("a variable is expected")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self, part: Tree) -> Tree:
        begin = self.here.begin if self.here else self.end
        bounds = self.bounds()
        if bounds is None:
            return part
        low, high = bounds
        if not self.open and (high == 0 or (high is not None and high < low)):
            raise self.source.error("a quantifier allows nothing", begin)
        return Repeat(part, low, high, greedy=not self.take("?"))

    def bounds(self) -> tuple[int, int | None] | None:
        if self.sign() in QUANTIFIERS:
            self.next += 1
            return QUANTIFIERS[self.tokens[self.next - 1].text]
        if not self.take("{"):
            return None
        low = self.number()
        comma = self.take(",")
        high = self.number() if comma else low
        if low is None and high is None:
            raise self.wrong("a number is expected", "{3}, {2,4}, {2,} or {,4}")
        self.expect("}")
        return low or 0, high

    def number(self) -> int | None:
        if self.here is not None and (name := self.source.parameter(self.here)) is not None:
            return self.given(name)
        if self.here is None or self.here.kind != "number":
            return None
        if not self.here.text.isdecimal() or len(self.here.text) > DIGITS:
            raise self.wrong("a whole number is expected")
        self.next += 1
        return int(self.tokens[self.next - 1].text)

    def given(self, parameter: str) -> int:
        value = self.source.value(parameter)
        if value is None:
            self.open = True
            value = 1
        if type(value) is not int or not 0 <= value < 10**DIGITS:
            raise self.wrong(f"${parameter} stands for a number of rows, not {value!r:.40}")
        self.next += 1
        return value

    def primary(self) -> Tree:
        token = self.here
        assert token is not None
        if self.take("("):
            return Sequence(()) if self.take(")") else self.closed(self.alternatives(), ")")
        if self.take("{-"):
            return Excluded(self.closed(self.alternatives(), "-}"))
        if anchor := ANCHORS.get(self.sign()):  # any other: no anchor
            raise self.wrong(f"a stream has no {anchor}, so {token.text} can never hold")
        if token.name is None:
            raise self.wrong()
        if self.source.parameter(token) is not None:
            raise self.wrong("a parameter is no variable", "as a number of rows: a{$least,}")
        self.next += 1
        if token.word == "PERMUTE" and self.take("("):
            return self.permutation()
        return Timeout() if token.word == "TIMEOUT" else Variable(token.name, token.begin)

    def permutation(self) -> Tree:
        parts = [self.alternatives()]
        while self.take(","):
            parts.append(self.alternatives())
        return self.closed(Permutation(tuple(parts)), ")")

    def closed(self, tree: Tree, sign: str) -> Tree:
        self.expect(sign)
        return tree


def _same(part: Tree, others: list[Tree]) -> bool:
    return any(_shape(part) == _shape(each) for each in others)


def _shape(tree: Tree) -> object:
    """The tree without its places."""
    match tree:
        case Variable():
            return tree.name.lower()
        case Sequence() | Alternatives() | Permutation():
            return type(tree), tuple(map(_shape, tree.parts))
        case Repeat():
            return tree.low, tree.high, tree.greedy, _shape(tree.body)
        case Excluded():
            return Excluded, _shape(tree.body)
        case Timeout():
            return Timeout
        case _:
            raise TypeError(tree)


def variables_of(tree: Tree) -> Iterator[Variable]:
    """The variables, in the order in which they stand in the text."""
    match tree:
        case Variable():
            yield tree
        case Sequence() | Alternatives() | Permutation():
            for part in tree.parts:
                yield from variables_of(part)
        case Repeat() | Excluded():
            yield from variables_of(tree.body)
        case Timeout():
            return
        case _:
            raise TypeError(tree)
