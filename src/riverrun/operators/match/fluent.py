"""Patterns in Python: `rr.pattern().begin(…).followed_by(…)`, made into the automaton of SQL's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from riverrun.arguments import checked, names, shown
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels.letters import OnError
from riverrun.operators.match import pattern as trees
from riverrun.operators.match.building import FOR_EVER, Options, assembled, require_columns
from riverrun.operators.match.building import match as match_text
from riverrun.operators.match.clauses import Clauses, Expression, Named, Rows, Skip, SkipMode
from riverrun.operators.match.text import Text
from riverrun.plan.nodes import Node, Step

Contiguity = Literal["begin", "next", "followed_by", "followed_by_any", "not_followed_by"]
RELAXED = ("followed_by", "followed_by_any")


@dataclass(frozen=True)
class Part:
    """One variable of a pattern, and how it follows the one before."""

    name: str
    condition: str | None
    follows: Contiguity
    low: int = 1
    high: int | None = 1
    eager: bool = False
    strict: bool = False
    """Whether its repetitions stand one directly after the other."""
    combined: bool = False
    """Whether its repetitions are any of the rows that fit."""
    left_out: bool = False
    ends_with: str | None = None

    @property
    def loops(self) -> bool:
        return self.high != 1

    @property
    def shown(self) -> str:
        most = " or more" if self.high is None else f" to {self.high}" * (self.high > self.low)
        said = {
            f"{self.low}{most} times": self.loops,
            "consecutive": self.strict,
            "in all combinations": self.combined,
            "greedy": self.eager,
            f"until {self.ends_with}": self.ends_with is not None,
            "optional": self.left_out,
        }
        words = [
            self.follows.replace("_", " "),
            self.name,
            *(each for each, so in said.items() if so),
        ]
        return " ".join(words)


@dataclass(frozen=True)
@checked
class Pattern:
    """A pattern of rows of one key. Each method gives a new one."""

    parts: tuple[Part, ...] = ()
    duration: int | None = None
    at: Location = field(default_factory=caller, compare=False)

    def begin(self, name: str, condition: str | None = None) -> Pattern:
        """The first row."""
        if self.parts:
            raise ProgramError("a pattern has one beginning", where=caller(), got=name)
        return self._with(Part(name, condition, "begin"))

    def next(self, name: str, condition: str | None = None) -> Pattern:
        """The row directly after."""
        return self._after(Part(name, condition, "next"))

    def followed_by(self, name: str, condition: str | None = None) -> Pattern:
        """The next row for which the condition holds; those in between are passed over."""
        return self._after(Part(name, condition, "followed_by"))

    def followed_by_any(self, name: str, condition: str | None = None) -> Pattern:
        """Every later row for which the condition holds, each in a match of its own."""
        return self._after(Part(name, condition, "followed_by_any"))

    def not_followed_by(self, name: str, condition: str) -> Pattern:
        """No such row before the next part; at the end, none until the time is over."""
        return self._after(Part(name, condition, "not_followed_by"))

    def times(self, count: int, to: int | None = None, *, or_more: bool = False) -> Pattern:
        """So many rows of the last part: `times(3)`, `times(2, 4)`, `times(3, or_more=True)`."""
        high = None if or_more else count if to is None else to
        if count < 1 or (high is not None and high < count) or (or_more and to is not None):
            raise ProgramError("times allows nothing", where=caller(), got=f"{count} to {high}")
        return self._last(low=count, high=high)

    def one_or_more(self) -> Pattern:
        """One row of the last part, or more: as few as will do, unless it is greedy."""
        return self._last(low=1, high=None)

    def optional(self) -> Pattern:
        """The last part may be missing."""
        return self._last(left_out=True)

    def greedy(self) -> Pattern:
        """Of the last part, as many rows as there are."""
        return self._last(eager=True)

    def consecutive(self) -> Pattern:
        """Rows of the last part stand one directly after the other."""
        return self._last(strict=True, combined=False)

    def combinations(self) -> Pattern:
        """Rows of the last part are any of those that fit, each choice in a match of its own."""
        if not self.parts or not self.parts[-1].loops:
            raise ProgramError("combinations are of what is repeated", where=caller())
        return self._last(combined=True, strict=False)

    def until(self, condition: str) -> Pattern:
        """The rows of the last part end before one for which the condition holds."""
        if not self.parts or not self.parts[-1].loops:
            raise ProgramError("until is for what is repeated", where=caller(), got=condition)
        return self._last(ends_with=condition)

    def within(self, duration: Duration) -> Pattern:
        """From the first row to the last at most so long."""
        return replace(self, duration=microseconds(duration, caller()))

    @property
    def shown(self) -> str:
        """In a line, for people."""
        return ", ".join(part.shown for part in self.parts)

    def _with(self, part: Part) -> Pattern:
        at = caller()
        if (
            part.name.lower() in (each.name.lower() for each in self.parts)
            or not part.name.isidentifier()
        ):
            raise ProgramError("a part needs a name of its own", where=at, got=part.name)
        return replace(self, parts=(*self.parts, part))

    def _after(self, part: Part) -> Pattern:
        if not self.parts:
            raise ProgramError("a pattern starts with .begin(…)", where=caller(), got=part.name)
        return self._with(part)

    def _last(self, **changes: object) -> Pattern:
        if not self.parts or self.parts[-1].follows == "not_followed_by":
            raise ProgramError("there is no part that this could be said of", where=caller())
        return replace(self, parts=(*self.parts[:-1], replace(self.parts[-1], **changes)))  # type: ignore[arg-type]


@checked
def pattern() -> Pattern:
    """The beginning of a pattern: `rr.pattern().begin("small", "amount < 1").next("big", …)`."""
    return Pattern(at=caller())


class MatchArguments(TypedDict, total=False):
    """What `.match(…)` takes beside the pattern, whichever way its matches are told."""

    by: str | Sequence[str] | None
    measures: Mapping[str, str] | None
    rows: Rows | None
    after: SkipMode | None
    timeouts: bool
    max_rows: int
    match_numbers: Duration | None
    name: str | None
    was: str | None
    on_error: OnError | None


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is asked of the matches of a pattern in Python."""

    by: str | Sequence[str] | None
    measures: Mapping[str, str] | None
    rows: Rows | None
    after: SkipMode | None


def match(rows: Node, given: str | Pattern, told: Told, options: Options, at: Location) -> Step:
    if isinstance(given, Pattern):
        return _match(rows, given, told, options, at)
    if not isinstance(given, str):
        raise ProgramError(
            "a pattern is SQL, or rr.pattern()", where=at, got=shown(given), hint="docs/patterns.md"
        )
    said = [name for name, value in vars(told).items() if value is not None]
    if said:
        raise ProgramError("a pattern in SQL says it all itself", where=at, got=", ".join(said))
    return match_text(rows, given, options, at)


def _match(rows: Node, given: Pattern, told: Told, options: Options, at: Location) -> Step:
    if given.duration is None:
        raise ProgramError(
            "the pattern has no .within(…)",
            where=at,
            hint=FOR_EVER.partition(":")[0] + ': .within("10 minutes")',
        )
    if not given.parts:
        raise ProgramError("the pattern is empty", where=at, hint='.begin("name", "condition")')
    every = any(part.follows == "followed_by_any" or part.combined for part in given.parts)
    after = told.after or ("every match" if every else "past last row")
    _require_known(told, after, at, every=every)
    made = _Made(given, told, at)
    found = Clauses(
        made.source,
        shown=given.shown,
        partition=[(name, 0) for name in names("by", told.by or (), 'by="card"')],
        measures=made.measures,
        rows=told.rows or "one",
        skip=Skip(after),
        within=given.duration,
        defines=made.defines,
    )
    require_columns(rows, found)
    return assembled(rows, found, made.tree, options, made.instead)


def _require_known(told: Told, after: str, at: Location, *, every: bool) -> None:
    known = ("past last row", "to next row", "every match")
    if after not in known:
        raise ProgramError("after is not known", where=at, got=after, hint=", ".join(known))
    if every and after != "every match":
        raise ProgramError(
            "followed_by_any and combinations are for every match",
            where=at,
            got=f"after={after!r}",
            hint="followed_by takes the next row that fits",
        )


class _Made:
    """The tree of a pattern, and its conditions with their places in one text."""

    def __init__(self, given: Pattern, told: Told, at: Location) -> None:
        self.lines: list[str] = []
        self.defines: list[Named] = []
        self.instead: dict[str, tuple[str, ...]] = {}
        """Variables for rows that are passed over, and those that must not hold then."""
        self.begins: dict[str, int] = {}
        for part in given.parts:
            self._define(part.name, part.condition)
            if part.ends_with:
                self._define(f"end of {part.name}", part.ends_with)
        self.measures = [self._measure(*each) for each in (told.measures or {}).items()]
        self.tree: trees.Tree = trees.Sequence(tuple(self._trees(given.parts)))
        self.source = Text("\n".join(self.lines), at)

    @property
    def _end(self) -> int:
        return sum(len(line) + 1 for line in self.lines)

    def _define(self, name: str, condition: str | None) -> None:
        begin = self._end
        self.begins[name] = begin
        self.lines.append(f"{name} AS {condition or 'any row'}")
        if condition:
            self.defines.append(Named(name, begin, Expression(condition, begin + len(name) + 4)))

    def _measure(self, name: str, text: str) -> Named:
        begin = self._end
        self.lines.append(f"{text} AS {name}")
        return Named(name, begin + len(text) + 4, Expression(text, begin))

    def _trees(self, parts: tuple[Part, ...]) -> Iterator[trees.Tree]:
        absent: list[str] = []
        for part in parts:
            if part.follows == "not_followed_by":
                absent.append(part.name)
                continue
            if part.follows in RELAXED or absent:
                named = () if part.follows == "followed_by_any" else (part.name,)
                passed = self._passed(f"before {part.name}", (*named, *absent))
                strict = part.follows not in RELAXED
                whole = self._repeated(part)
                yield self._optional(part, whole if strict else trees.Sequence((passed, whole)))
            else:
                yield self._optional(part, self._repeated(part))
            absent = []
        if absent:
            yield self._passed("until the end", tuple(absent))
            yield trees.Timeout()

    def _passed(self, name: str, instead: tuple[str, ...]) -> trees.Tree:
        """Any number of rows for which none of the variables holds."""
        self.instead[name] = instead
        begin = self.begins[instead[0]] if instead else 0
        row = trees.Variable(name, begin)
        return trees.Excluded(trees.Repeat(row, 0, None, greedy=False))

    def _repeated(self, part: Part) -> trees.Tree:
        row: trees.Tree = trees.Variable(part.name, self.begins[part.name])
        end = (f"end of {part.name}",) if part.ends_with else ()
        if end:
            self.instead[part.name] = end
        if not part.loops:
            return row
        if part.strict:
            return trees.Repeat(row, part.low, part.high, part.eager)
        own = () if part.combined else (part.name,)
        again = trees.Sequence((self._passed(f"between {part.name}", (*own, *end)), row))
        high = None if part.high is None else part.high - 1
        return trees.Sequence((row, trees.Repeat(again, part.low - 1, high, part.eager)))

    def _optional(self, part: Part, tree: trees.Tree) -> trees.Tree:
        return trees.Repeat(tree, 0, 1) if part.left_out else tree
