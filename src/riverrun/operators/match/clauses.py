"""The clauses of a pattern's text, taken apart: what each holds is read elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from riverrun.durations import microseconds
from riverrun.errors import ProgramError
from riverrun.operators.match.text import Text, Token, depths, listed

Rows = Literal["one", "all"]
SkipMode = Literal["past last row", "to next row", "to first", "to last", "every match"]

ORDER = (
    "PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, AFTER MATCH, PATTERN, WITHIN, SUBSET, "
    "DEFINE"
)
HEADS: tuple[tuple[str, ...], ...] = (
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("MEASURES",),
    ("ONE", "ROW"),
    ("ALL", "ROWS"),
    ("AFTER", "MATCH"),
    ("PATTERN",),
    ("WITHIN",),
    ("SUBSET",),
    ("DEFINE",),
)
"""The words that clauses begin with."""


@dataclass(frozen=True)
class Expression:
    """A piece of SQL, where it stands in the text."""

    text: str
    begin: int


@dataclass(frozen=True)
class Skip:
    """Where to go on after a match."""

    mode: SkipMode = "past last row"
    variable: str | None = None
    begin: int = 0


@dataclass(frozen=True)
class Named:
    """Something with a name: a measure, a condition, a subset."""

    name: str
    begin: int
    holds: Expression


@dataclass
class Clauses:
    """What a text says, clause by clause."""

    source: Text
    shown: str = ""
    """The pattern, for people."""
    partition: list[tuple[str, int]] = field(default_factory=list)
    order: list[tuple[str, int]] = field(default_factory=list)
    measures: list[Named] = field(default_factory=list)
    rows: Rows = "one"
    skip: Skip = Skip()
    pattern: list[Token] = field(default_factory=list)
    within: int | None = None
    subsets: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    defines: list[Named] = field(default_factory=list)


def clauses_of(source: Text, *, keyed: bool = False) -> Clauses:
    """`keyed`: whether the key is known from elsewhere, so that PARTITION BY may be missing."""
    found, seen = Clauses(source), set()
    for head, tokens in _cut(source):
        word = head[0].word
        if word in seen or (word == "ALL" and "ONE" in seen) or (word == "ONE" and "ALL" in seen):
            raise source.error(f"{word} is given twice", head[0].begin)
        seen.add(word)
        _read(found, word, head, tokens)
    if "PATTERN" not in seen:
        raise source.error("there is no PATTERN", len(source.text), "PATTERN (a b+ c)")
    if "PARTITION" not in seen and not keyed:
        raise source.error(
            "there is no PARTITION BY", 0, "rows are matched key by key: PARTITION BY card"
        )
    return found


def shaping(source: Text) -> list[str]:
    """The parameters that say which rows a match may have at all: those in PATTERN and WITHIN."""
    parts = (tokens for head, tokens in _cut(source) if head[0].word in ("PATTERN", "WITHIN"))
    names = (source.parameter(token) for tokens in parts for token in tokens)
    return sorted({name for name in names if name is not None})


def _cut(source: Text) -> Iterator[tuple[list[Token], list[Token]]]:
    """Each clause: the words that it begins with, and what is in it."""
    tokens = source.tokens()
    deep = depths(tokens)
    if wrong := [t for t, depth in zip(tokens, deep, strict=True) if depth < 0]:
        raise source.error("a bracket closes that was not opened", wrong[0].begin)
    starts = [(n, size) for n in range(len(tokens)) if (size := _head(source, tokens, deep, n))]
    if not tokens:
        return
    if not starts or starts[0][0] > 0:
        raise source.error("this is not the beginning of a clause", tokens[0].begin, ORDER)
    for (start, size), end in zip(starts, [n for n, _ in starts[1:]] + [len(tokens)], strict=True):
        yield tokens[start : start + size], tokens[start + size : end]


def _head(source: Text, tokens: list[Token], deep: list[int], n: int) -> int:
    """How many words of a clause's beginning stand here; none inside of an expression."""
    before = tokens[n - 1] if n else None
    if deep[n] or (before and (before.text == "." or before.word == "AS")):
        return 0
    for words in HEADS:
        here = tuple(token.word for token in tokens[n : n + len(words)])
        if here == words and _follows(source, words[0], tokens[n + len(words) :]):
            return len(words)
    return 0


def _follows(source: Text, word: str, after: list[Token]) -> bool:
    """Whether what comes after a word makes it the beginning of a clause, not a column's name."""
    texts = [each.text.upper() for each in after[:2]]
    match word:
        case "PATTERN":
            return texts[:1] == ["("]
        case "WITHIN":
            open_ = bool(after) and source.parameter(after[0]) is not None
            return open_ or texts[:1] == ["INTERVAL"] or bool(after and after[0].kind == "text")
        case "SUBSET":
            return texts[1:] == ["="]
        case "DEFINE":
            return texts[1:] == ["AS"]
        case "ONE" | "ALL":
            return texts[:1] == ["PER"]
        case "AFTER":
            return texts[:1] == ["SKIP"]
        case "MEASURES" | "PARTITION" | "ORDER":
            return bool(after)
        case _:
            raise ValueError(word)


def _read(into: Clauses, word: str, head: list[Token], tokens: list[Token]) -> None:
    source = into.source
    if not tokens:
        raise source.error(f"{word} is empty", head[-1].end)
    match word:
        case "PARTITION":
            into.partition = list(_names(source, tokens))
        case "ORDER":
            into.order = list(_order(source, tokens))
        case "MEASURES":
            into.measures = [_measure(source, part) for part in listed(tokens)]
        case "ONE" | "ALL":
            into.rows = _rows(source, word, tokens)
        case "AFTER":
            into.skip = _skip(source, tokens)
        case "PATTERN":
            into.pattern = _bracketed(source, tokens)
            into.shown = " ".join(source.text[tokens[0].end : tokens[-1].begin].split())
        case "WITHIN":
            into.within = _within(source, tokens)
        case "SUBSET":
            into.subsets = dict(_subset(source, part) for part in listed(tokens))
        case "DEFINE":
            into.defines = [_define(source, part) for part in listed(tokens)]
        case _:
            raise ValueError(word)


def _names(source: Text, tokens: list[Token]) -> Iterator[tuple[str, int]]:
    for part in listed(tokens):
        name = part[0].name if len(part) == 1 else None
        if name is None:
            begin = part[0].begin if part else tokens[-1].end
            raise source.error(
                "a column's name is expected", begin, "compute it before, with .with_columns(…)"
            )
        yield name, part[0].begin


def _order(source: Text, tokens: list[Token]) -> Iterator[tuple[str, int]]:
    if tokens[-1].word == "DESC":
        raise source.error("rows are matched in the order of their time", tokens[-1].begin)
    if tokens[-1].word == "ASC":
        tokens = tokens[:-1]
    yield from _names(source, tokens)


def _measure(source: Text, part: list[Token]) -> Named:
    name = part[-1].name if part else None
    if len(part) < 3 or name is None or part[-2].word != "AS":
        begin = part[-1].end if part else len(source.text)
        raise source.error("a measure needs a name", begin, "MEASURES LAST(a.price) AS price")
    return Named(name, part[-1].begin, _expression(source, part[:-2]))


def _define(source: Text, part: list[Token]) -> Named:
    name = part[0].name if part else None
    if len(part) < 3 or name is None or part[1].word != "AS":
        begin = part[0].begin if part else len(source.text)
        raise source.error("a condition is written as NAME AS …", begin, "DEFINE a AS amount > 1")
    return Named(name, part[0].begin, _expression(source, part[2:]))


def _expression(source: Text, part: list[Token]) -> Expression:
    return Expression(source.text[part[0].begin : part[-1].end], part[0].begin)


def _rows(source: Text, word: str, tokens: list[Token]) -> Rows:
    words = [token.word for token in tokens]
    if words[:2] != ["PER", "MATCH"]:
        raise source.error("PER MATCH is expected", tokens[0].begin)
    if words[2:] == ["WITH", "UNMATCHED", "ROWS"]:
        raise source.error(
            "rows that are in no match are not given", tokens[2].begin, "use the stream itself"
        )
    empty = words[2:] in (["SHOW", "EMPTY", "MATCHES"], ["OMIT", "EMPTY", "MATCHES"])
    if words[2:] and not (word == "ALL" and empty):  # there are none: see `automaton`
        raise source.error("this is not expected here", tokens[2].begin)
    return "one" if word == "ONE" else "all"


def _skip(source: Text, tokens: list[Token]) -> Skip:
    words = [token.word for token in tokens]
    fixed: dict[tuple[str, ...], SkipMode] = {
        ("SKIP", "PAST", "LAST", "ROW"): "past last row",
        ("SKIP", "TO", "NEXT", "ROW"): "to next row",
    }
    if mode := fixed.get(tuple(words)):
        return Skip(mode)
    named: dict[tuple[str, ...], SkipMode] = {
        ("SKIP", "TO", "FIRST"): "to first",
        ("SKIP", "TO", "LAST"): "to last",
        ("SKIP", "TO"): "to last",
    }
    if (mode := named.get(tuple(words[:-1]))) and tokens[-1].name:
        return Skip(mode, tokens[-1].name, tokens[-1].begin)
    raise source.error(
        "AFTER MATCH cannot be read",
        tokens[0].begin,
        "SKIP PAST LAST ROW, SKIP TO NEXT ROW, SKIP TO FIRST name, SKIP TO LAST name",
    )


def _bracketed(source: Text, tokens: list[Token]) -> list[Token]:
    deep = depths(tokens)
    if deep.count(0) != 2 or tokens[-1].text != ")":
        after = [t for t, depth in zip(tokens, deep, strict=True) if depth == 0][2:]
        fact = "this is not expected after the pattern" if after else "a bracket is not closed"
        raise source.error(fact, after[0].begin if after else tokens[0].begin)
    return tokens[1:-1]


def _within(source: Text, tokens: list[Token]) -> int:
    parts = tokens[1:] if tokens[0].word == "INTERVAL" else tokens
    words = [each.text[1:-1] if each.kind == "text" else each.text for each in parts]
    for n, each in enumerate(parts):
        if (name := source.parameter(each)) is not None:
            if source.value(name) is None:
                return 1
            words[n] = str(source.value(name))
    try:
        found = microseconds(" ".join(words))
    except ProgramError as error:
        got = f": {' '.join(words)!r}"[:100] if any(map(source.parameter, parts)) else ""
        raise source.error(
            f"a duration cannot be read{got}", tokens[0].begin, "WITHIN INTERVAL '10' MINUTE"
        ) from error
    if found <= 0:
        raise source.error("WITHIN needs a time above zero", tokens[0].begin)
    return found


def _subset(source: Text, part: list[Token]) -> tuple[str, list[tuple[str, int]]]:
    name = part[0].name if part else None
    if len(part) < 5 or name is None or part[1].text != "=" or part[2].text != "(":
        begin = part[0].begin if part else len(source.text)
        raise source.error("a subset is written as NAME = (a, b)", begin)
    return name, list(_names(source, _bracketed(source, part[2:])))
