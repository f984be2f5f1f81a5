"""A matcher of row patterns that tries everything: slow, plain, and written apart from riverrun's.

A pattern is nested tuples:

    ("row", name)  ("all", part, …)  ("any", part, …)  ("orders", part, …)
    ("times", part, low, high or None, greedy)  ("hide", part)  ("over",)

`over` holds, without a row, when the match's time is over. A path is a list of (number of the row,
name, hidden). Conditions and measures are functions over a `Seen`.

If the rows are only those so far, a way may lead to their end while its time is not over: it is
open, and so is what it is preferred to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import permutations
from math import inf
from typing import Any

Pattern = tuple[Any, ...]
Path = list[tuple[int, str, bool]]
Condition = Callable[["Seen"], Any]
End = bool | str
"""Of a way: whether the match's time is over; OPEN if it is not known how it ends."""
OPEN = "open"


def text_of(pattern: Pattern) -> str:
    kind, *rest = pattern
    if kind == "row":
        return rest[0]
    if kind == "over":
        return "TIMEOUT"
    if kind == "hide":
        return f"{{- {text_of(rest[0])} -}}"
    if kind == "times":
        part, low, high, greedy = rest
        known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        sign = known.get((low, high), f"{{{low},{'' if high is None else high}}}")
        return f"({text_of(part)}){sign}{'' if greedy else '?'}"
    between = {"all": " ", "any": " | ", "orders": ", "}[kind]
    inside = between.join(map(text_of, rest))
    return f"{'PERMUTE' if kind == 'orders' else ''}({inside})"


def names_of(pattern: Pattern) -> list[str]:
    if pattern[0] == "row":
        return [pattern[1]]
    found = [name for part in pattern[1:] if isinstance(part, tuple) for name in names_of(part)]
    return list(dict.fromkeys(found))


def may_be_empty(pattern: Pattern) -> bool:
    kind, *rest = pattern
    if kind == "row":
        return False
    if kind == "times":
        return rest[1] == 0 or may_be_empty(rest[0])
    if kind == "any":
        return any(map(may_be_empty, rest))
    return all(map(may_be_empty, rest))


@dataclass
class Seen:
    """The rows of a key, and a match of them so far: the row in question is the last of `path`."""

    rows: list[dict[str, Any]]
    path: Path
    within: int
    subsets: dict[str, set[str]] = field(default_factory=dict)
    whole: Path | None = None
    """The path of the whole match, for FINAL."""

    def numbers(self, name: str | None, *, final: bool = False) -> list[int]:
        names = None if name is None else self.subsets.get(name, {name})
        path = self.whole if final and self.whole is not None else self.path
        return [n for n, of, _ in path if names is None or of in names]

    def at(self, number: int | None, column: str, shift: int = 0) -> Any:
        """None for a row that is not there, or too far away in time."""
        if number is None or not 0 <= number + shift < len(self.rows):
            return None
        row, other = self.rows[number], self.rows[number + shift]
        return other[column] if abs(row["at"] - other["at"]) <= self.within else None

    def last(
        self, name: str | None, column: str, offset: int = 0, shift: int = 0, *, final: bool = False
    ) -> Any:
        found = self.numbers(name, final=final)
        return self.at(found[-1 - offset] if len(found) > offset else None, column, shift)

    def first(
        self, name: str | None, column: str, offset: int = 0, shift: int = 0, *, final: bool = False
    ) -> Any:
        found = self.numbers(name, final=final)
        return self.at(found[offset] if len(found) > offset else None, column, shift)

    def values(self, name: str | None, column: str, *, final: bool = False) -> list[Any]:
        found = [self.rows[n][column] for n in self.numbers(name, final=final)]
        return [value for value in found if value is not None]

    @property
    def classes(self) -> list[str]:
        return [name for _, name, _ in self.path]


@dataclass
class BruteForce:
    pattern: Pattern
    conditions: dict[str, Condition]
    within: int
    skip: tuple[str, ...] = ("past",)
    subsets: dict[str, set[str]] = field(default_factory=dict)
    most: int = 10**9
    clock: float = inf
    """How far time has come."""
    ahead: int = 0
    """How many rows after its own a condition or measure looks at."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    """Up to where rows are known, with those after them that are looked at."""
    seen: float = inf
    """How far time has come by the rows themselves, too."""
    over_at: float = inf

    def matches(self, rows: list[dict[str, Any]]) -> list[tuple[Path, End]]:
        """Each match, and whether it ended because its time was over."""
        self.rows, self.start, found = rows, 0, []
        self._look_at(rows)
        while self.start < self.end:
            ways = self.ways(self.pattern, self.start, [])
            if self.skip[0] == "every":
                seen = []
                for _, path, over in ways:
                    if over != OPEN and (path, over) not in seen:
                        seen.append((path, over))
                found += seen
                self.start += 1
                continue
            best = next(ways, None)
            if best is None:
                self.start += 1
            elif best[2] == OPEN:
                break
            else:
                found.append(best[1:])
                self.start = self.after(best[1])
        return found

    def _look_at(self, rows: list[dict[str, Any]]) -> None:
        self.end, self.over_at = len(rows), self.clock
        self.seen = max(self.clock, rows[-1]["at"]) if rows else self.clock
        for n, row in enumerate(rows):
            if n + self.ahead >= len(rows) and row["at"] + self.within >= self.seen:
                self.end = n
                self.seen, self.over_at = (min(t, row["at"]) for t in (self.seen, self.over_at))
                break

    @property
    def deadline(self) -> int:
        return self.rows[self.start]["at"] + self.within

    def after(self, path: Path) -> int:
        if self.skip[0] == "next":
            return self.start + 1
        past = path[-1][0] + 1
        if self.skip[0] == "past":
            return past
        names = self.subsets.get(self.skip[1], {self.skip[1]})
        places = [n for n, name, _ in path if name in names]
        if not places:
            return past
        return max(places[0] if self.skip[0] == "first" else places[-1], self.start + 1)

    def in_time(self, n: int) -> bool:
        return self.rows[n]["at"] <= self.deadline and n - self.start < self.most

    def ways(
        self, pattern: Pattern, n: int, path: Path, hidden: bool = False
    ) -> Iterator[tuple[int, Path, End]]:
        """All ways to match from row n on, the preferred first: next row, path, time is over."""
        kind, *rest = pattern
        if kind == "row":
            yield from self.row(rest[0], n, path, hidden)
        elif kind == "all":
            yield from self.one_after_the_other(rest, n, path, hidden)
        elif kind == "any":
            for part in rest:
                yield from self.ways(part, n, path, hidden)
        elif kind == "orders":
            for order in permutations(rest):
                yield from self.one_after_the_other(list(order), n, path, hidden)
        elif kind == "hide":
            yield from self.ways(rest[0], n, path, True)
        elif kind == "over":
            if n == self.end or self.rows[n]["at"] > self.deadline:
                yield n, path, True if self.over_at > self.deadline else OPEN
        else:
            yield from self.repeated(rest, 0, n, path, hidden)

    def row(self, name: str, n: int, path: Path, hidden: bool) -> Iterator[tuple[int, Path, End]]:
        if n == self.end and self.seen <= self.deadline and n - self.start < self.most:
            yield n, path, OPEN
        if n < self.end and self.in_time(n):
            longer = [*path, (n, name, hidden)]
            condition = self.conditions.get(name)
            seen = Seen(self.rows, longer, self.within, self.subsets)
            if condition is None or condition(seen) is True:
                yield n + 1, longer, False

    def one_after_the_other(
        self, parts: list[Pattern], n: int, path: Path, hidden: bool
    ) -> Iterator[tuple[int, Path, End]]:
        if not parts:
            yield n, path, False
            return
        for m, longer, over in self.ways(parts[0], n, path, hidden):
            if over:  # nothing comes after it
                yield m, longer, over
            else:
                yield from self.one_after_the_other(parts[1:], m, longer, hidden)

    def repeated(
        self, rest: list[Any], done: int, n: int, path: Path, hidden: bool
    ) -> Iterator[tuple[int, Path, End]]:
        part, low, high, greedy = rest
        if done >= low and not greedy:
            yield n, path, False
        if high is None or done < high:
            for m, longer, over in self.ways(part, n, path, hidden):
                if over:
                    yield m, longer, over
                elif m > n or done < low:  # an empty repetition beyond those required leads nowhere
                    yield from self.repeated(rest, done + 1, m, longer, hidden)
        if done >= low and greedy:
            yield n, path, False
