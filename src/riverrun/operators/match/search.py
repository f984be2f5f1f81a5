"""Finds the matches of a key: backwards for bounds, then forwards in order of preference.

1. Backwards over a key's rows, for each row and position: the first row at which a match through
   here could be complete, and whether a path from here reaches the end of the rows, where only the
   future can tell. Conditions on earlier rows of the match are taken as true: it is a bound.
2. Forwards from each start, depth first, only where the bound allows it. Without such conditions
   the first step that is allowed is always right, and nothing is tried in vain. With them it may
   have to go back; what they ask about the match so far is kept along the way.

An attempt gives a match, none, or "the future must tell": then the key stops there, and the next
batch begins there again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.durations import END
from riverrun.operators.match.automaton import MATCH, TIMEOUT, Automaton
from riverrun.operators.match.clauses import SkipMode
from riverrun.operators.match.conditions import Dependent
from riverrun.operators.match.so_far import SoFar

NEVER = 1 << 60
NONE, FOUND, OPEN = "none", "found", "open"


@dataclass(frozen=True)
class Matching:
    """All that a search depends on."""

    automaton: Automaton
    within: int
    skip: SkipMode
    skip_to: tuple[int, ...] = ()
    dependent: Dependent = field(default_factory=Dependent)
    max_rows: int = 10_000
    """Of a match; an attempt that would need more is given up."""
    timeouts: bool = False
    """Whether partial matches that run out of time are told."""
    instead: tuple[tuple[int, ...], ...] = ()
    """Of each variable, those that must not hold for its rows."""

    def after(self, s: int, labels: list[int]) -> int:
        """Where to go on after a match from row s on."""
        if self.skip in ("to next row", "every match"):
            return s + 1
        if self.skip == "past last row":
            return s + len(labels)
        var = self.automaton.var
        places = [s + d for d, q in enumerate(labels) if var[q] in self.skip_to]
        if not places:  # the standard has an error here: a stream goes on
            return s + len(labels)
        return max(places[0] if self.skip == "to first" else places[-1], s + 1)


@dataclass
class Rows:
    """Rows of keys, in order."""

    at: list[int]
    mask: list[int]
    columns: list[list[Any]]
    """What conditions on earlier rows ask for."""


@dataclass
class Found:
    """Matches, one after the other: the first row, the positions of its rows, and how it ended."""

    first: list[int] = field(default_factory=list)
    labels: list[list[int]] = field(default_factory=list)
    by_time: list[bool] = field(default_factory=list)

    def add(self, first: int, labels: list[int], *, by_time: bool) -> None:
        self.first.append(first)
        self.labels.append(labels)
        self.by_time.append(by_time)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Found:
        """Some of them."""
        if which.all():
            return self
        numbers = np.flatnonzero(which).tolist()
        lists = (self.first, self.labels, self.by_time)
        return Found(*([each[n] for n in numbers] for each in lists))  # type: ignore[arg-type]


class Search:
    """The matches, and what became of attempts without one, of keys one after the other."""

    def __init__(self, matching: Matching, rows: Rows, before: int) -> None:
        """`before`: of every match, those that ended before then have been told."""
        self.matching, self.rows, self.before = matching, rows, before
        self.found, self.timed_out = Found(), Found()
        self.given_up: list[int] = []
        automaton = matching.automaton
        self.m = len(automaton.var)
        self.bits = [1 << v for v in automaton.var]
        self.paths = [_Path.of(targets) for targets in automaton.follow]
        self.so_far = (
            SoFar(automaton, matching.dependent, rows.columns) if matching.dependent.codes else None
        )
        self.tells = matching.timeouts or automaton.times_out or matching.skip == "every match"
        self.holding: dict[int, list[tuple[int, bool, tuple[int, ...]]]] = {}

    def key(self, start: int, end: int, clock: int, seen: int) -> int:
        """Searches the rows from `start` to `end`. The first one that is needed further.

        `seen` is how far time has come by rows of the key too, some of which may be ahead of the
        clock: it decides what can still come. That nothing came is told by the clock alone.
        """
        matching, rows = self.matching, self.rows
        first_mask = matching.automaton.first_mask
        attempt = _Attempt(self, start, end, clock, seen)
        s = needed = start
        still_open = False
        while s < end:
            if not rows.mask[s] & first_mask:
                s += 1
                continue
            outcome = attempt.at(s)
            if outcome == OPEN and matching.skip != "every match":
                return s
            if outcome == OPEN and not still_open:
                still_open, needed = True, s
            s = matching.after(s, self.found.labels[-1]) if outcome == FOUND else s + 1
        return needed if still_open else end

    def positions(self, mask: int) -> list[tuple[int, bool, tuple[int, ...]]]:
        """The positions that a row may be at, whether a match may end there, and what follows."""
        if mask not in self.holding:
            pairs = enumerate(self.paths[: self.m])
            self.holding[mask] = [
                (q, path.matches, path.rows) for q, path in pairs if mask & self.bits[q]
            ]
        return self.holding[mask]


@dataclass(frozen=True)
class _Path:
    """What may follow a position."""

    targets: tuple[int, ...]
    rows: tuple[int, ...]
    matches: bool
    times_out: bool

    @classmethod
    def of(cls, targets: tuple[int, ...]) -> _Path:
        rows = tuple(t for t in targets if t >= 0)
        return cls(targets, rows, MATCH in targets, TIMEOUT in targets)


class _Attempt:
    """Attempts at the rows of one key."""

    def __init__(self, search: Search, start: int, end: int, clock: int, seen: int) -> None:
        self.search, self.start, self.end = search, start, end
        self.clock, self.seen = clock, seen
        self.limit = start
        """Rows before this one are within the deadline."""
        size = (end - start) * search.m
        self.complete, self.open = [NEVER] * size, [False] * size
        self.few = end - start < search.matching.max_rows
        self.simple = self.few and not search.tells
        """Whether nothing but matches is asked for."""
        if self.simple:
            self._simple_bounds()
        else:
            self._bounds(size)

    def _simple_bounds(self) -> None:
        search, m, complete, open_ = self.search, self.search.m, self.complete, self.open
        mask = search.rows.mask
        last = self.end - 1
        for i in range(last, self.start - 1, -1):
            here = (i - self.start) * m
            after = here + m
            for q, matches, rows in search.positions(mask[i]):
                ends, goes_on = i if matches else NEVER, False
                if i == last:
                    goes_on = bool(rows)
                else:
                    for t in rows:
                        ends = min(ends, complete[after + t])
                        goes_on = goes_on or open_[after + t]
                complete[here + q], open_[here + q] = ends, goes_on

    def _bounds(self, size: int) -> None:
        search, m = self.search, self.search.m
        self.far = [0] * size
        """How far a path from here gets: the first row that it has not."""
        self.earliest, self.latest = [NEVER] * size, [-NEVER] * size
        """Between which times a deadline must lie for a timeout."""
        mask, bits, paths = search.rows.mask, search.bits, search.paths
        for i in range(self.end - 1, self.start - 1, -1):
            here, held = (i - self.start) * m, mask[i]
            for q in range(m):
                if held & bits[q]:
                    self._bound(i, here + q, paths[q])

    def _bound(self, i: int, here: int, path: _Path) -> None:
        after = (i + 1 - self.start) * self.search.m
        last = i + 1 == self.end
        ends, goes_on, far = (i if path.matches else NEVER), False, i + 1
        if path.times_out:
            at = self.search.rows.at
            self.earliest[here] = at[i]
            self.latest[here] = self.seen if last else at[i + 1]
            goes_on = last
        if last:
            goes_on = goes_on or bool(path.rows)
        else:
            for t in path.rows:
                there = after + t
                ends = min(ends, self.complete[there])
                goes_on = goes_on or self.open[there]
                far = max(far, self.far[there])
                self.earliest[here] = min(self.earliest[here], self.earliest[there])
                self.latest[here] = max(self.latest[here], self.latest[there])
        self.complete[here], self.open[here], self.far[here] = ends, goes_on, far

    def at(self, s: int) -> str:
        """Tries to match from row s on."""
        search, matching = self.search, self.search.matching
        at = search.rows.at
        deadline = min(at[s] + matching.within, END - 1)
        while self.limit < self.end and at[self.limit] <= deadline:
            self.limit += 1
        alive = self.seen <= deadline
        limit = min(self.limit, s + matching.max_rows)
        if self.simple and search.so_far is None:
            return self._straight(s, alive=alive)
        walk = _Walk(self, s, deadline, limit, alive=alive)
        if matching.skip == "every match":
            return walk.every()
        outcome = walk.preferred()
        if outcome == NONE:
            walk.tell_of_none()
        return outcome

    def _straight(self, s: int, *, alive: bool) -> str:
        """The same where bounds are exact: the first step that is allowed is right."""
        search, m, base = self.search, self.search.m, self.start
        mask, bits, paths = search.rows.mask, search.bits, search.paths
        targets, row = paths[-1].targets, s
        labels: list[int] = []
        while True:
            for q in targets:
                if q == MATCH:
                    search.found.add(s, labels, by_time=False)
                    return FOUND
                if row == self.end and alive:
                    return OPEN
                if row >= self.limit or not mask[row] & bits[q]:
                    continue
                here = (row - base) * m + q
                if self.complete[here] < self.limit or (alive and self.open[here]):
                    labels.append(q)
                    targets, row = paths[q].targets, row + 1
                    break
            else:
                return NONE


class _Walk:
    """One attempt: a path through the automaton, depth first."""

    def __init__(
        self, attempt: _Attempt, s: int, deadline: int, limit: int, *, alive: bool
    ) -> None:
        self.attempt, self.s, self.deadline, self.limit = attempt, s, deadline, limit
        self.alive, self.over = alive, attempt.clock > deadline
        self.labels: list[int] = []
        self.cut: list[int] | None = None
        """The first path that came to the limit."""
        search = attempt.search
        self.so_far = search.so_far
        self.tells = search.matching.timeouts or not attempt.few
        self.cursors = [iter(search.paths[-1].targets)]
        if self.so_far:
            self.so_far.clear()

    def preferred(self) -> str:
        while True:
            ended = self._step()
            if ended is None:
                return NONE
            if ended == OPEN:
                return OPEN
            if ended:
                found = self.attempt.search.found
                found.add(self.s, list(self.labels), by_time=ended == "timeout")
                return FOUND

    def every(self) -> str:
        """All matches whose end is new; the attempt is open until its time is over."""
        search, outcome, found = self.attempt.search, NONE, False
        seen: set[tuple[tuple[int, ...], str]] = set()
        var, at = search.matching.automaton.var, search.rows.at
        while (ended := self._step()) is not None:
            if ended == OPEN:
                outcome = OPEN
            elif ended:
                found = True
                end = self.deadline if ended == "timeout" else at[self.s + len(self.labels) - 1]
                labels = tuple(var[q] for q in self.labels)
                if end >= search.before and (labels, ended) not in seen:
                    seen.add((labels, ended))
                    search.found.add(self.s, list(self.labels), by_time=ended == "timeout")
        if outcome == NONE:
            self.tell_of_none(found=found)
        return outcome

    def tell_of_none(self, *, found: bool = False) -> None:
        """What became of an attempt: it was given up, or its time ran out before a match was
        `found`."""
        search = self.attempt.search
        if self.cut is None:
            return
        if len(self.cut) >= search.matching.max_rows:
            search.given_up.append(self.s)
        elif search.matching.timeouts and self.over and not found:
            search.timed_out.add(self.s, self.cut, by_time=True)

    def _step(self) -> str | None:
        """One step: None when all has been tried; "match", "timeout" or "open" where a path ends;
        empty if it goes on."""
        q = next(self.cursors[-1], None)
        if q is None:
            self.cursors.pop()
            if not self.cursors:
                return None
            popped = self.labels.pop()
            if self.so_far:
                self.so_far.pop(popped)
            return ""
        if q == MATCH:
            return "match"
        row = self.s + len(self.labels)
        if (
            row == self.attempt.end
            and self.alive
            and row < self.s + self.attempt.search.matching.max_rows
        ):
            return OPEN
        if q == TIMEOUT:
            if row < self.attempt.limit:
                return ""
            return "timeout" if self.over else OPEN
        if row >= self.limit:
            if self.cut is None and self.labels:
                self.cut = list(self.labels)
        elif self._enters(row, q):
            self.labels.append(q)
            self.cursors.append(iter(self.attempt.search.paths[q].targets))
        return ""

    def _enters(self, row: int, q: int) -> bool:
        attempt = self.attempt
        if not attempt.search.rows.mask[row] & attempt.search.bits[q]:
            return False
        here = (row - attempt.start) * attempt.search.m + q
        allowed = attempt.complete[here] < self.limit or (self.alive and attempt.open[here])
        if not allowed and not attempt.simple:
            allowed = (self.tells and attempt.far[here] >= self.limit) or attempt.earliest[
                here
            ] <= self.deadline < attempt.latest[here]
        if not allowed or self.so_far is None:
            return allowed
        return not self._held_by_another(row, q) and self.so_far.push(row, q)

    def _held_by_another(self, row: int, q: int) -> bool:
        """Whether a variable holds that must not for this row to be passed over."""
        search, so_far = self.attempt.search, self.so_far
        assert so_far is not None
        matching = search.matching
        others = matching.instead[matching.automaton.var[q]] if matching.instead else ()
        return any(search.rows.mask[row] >> v & 1 and so_far.would_hold(row, v) for v in others)
