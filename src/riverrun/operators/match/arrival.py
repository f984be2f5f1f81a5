"""Patterns whose matches are told as rows arrive, and corrected when a straggler changes them.

Rows do not wait for the clock: those that are there are matched in the order of their time, as if
none were missing. Each is kept until no row that is in time can change a match that begins with it.
When a key has something new, its matches from there on are found again; what differs from what was
told of it before leaves as `-` and `+`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import EVENT
from riverrun.durations import BEGINNING, END
from riverrun.edges import Edge
from riverrun.kernels.letters import Failure, judge
from riverrun.kernels.operator import Batch, Leaving, Result, StepState, split_late
from riverrun.operators.match.given import Given
from riverrun.operators.match.measures import Numbers
from riverrun.operators.match.prefilter import Truths
from riverrun.operators.match.results import BEGAN, Results
from riverrun.operators.match.search import Found, Search
from riverrun.operators.match.spec import TIMED_OUT, MatchSpec
from riverrun.operators.match.visit import Sorted, Visit


@dataclass(frozen=True, kw_only=True)
class MatchOnArrival(MatchSpec):
    kind = "match on arrival"

    @property
    def holds(self) -> bool:
        return False

    def leaves_rows(self) -> bool:
        return True

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=(EVENT,))

    def output_edge(self, output: str = "") -> Edge:
        # partial matches are told once, when their time is over
        return Edge("stream", self.name, output) if output else super().output_edge()

    def frozen(self) -> dict[str, Any]:
        # what has been told is taken back as it was told
        measures = {each.name: each.text for each in self.measures.measures}
        return super().frozen() | {"measures": measures, "rows": self.rows}

    def settings(self) -> dict[str, Any]:
        return {"max_rows": self.matching.max_rows}

    def gives(self) -> str:
        return f"{super().gives()}, as rows arrive; stragglers correct it"

    @cached_property
    def settles(self) -> int:
        """How long after a row no straggler can change the match that begins with it. Where NEXT is
        asked for, it may be that of the last row of the match."""
        return self.matching.within * (2 if self.reach[1] else 1)

    def advance(self, state: StepState, batch: Batch) -> Result:
        return _Arriving(self, state, batch).run()


class _Arriving(Visit):
    def __init__(self, step: MatchOnArrival, state: StepState, batch: Batch) -> None:
        super().__init__(step, state, batch)
        self.settles = step.settles
        self.given = Given(step, state, batch, step.settles)
        self.failures: list[Failure] = []

    def run(self) -> Result:
        rows = self.at_hand(self._arrived())
        if rows is not None:
            self._match(self.sorted(rows))
        else:
            for kept in (self.open, self.looks, self.given.kept):
                kept.append(None, self.batch.after)
        self.result.failed = judge(self.failures, self.batch.topics)
        self.result.waiting = bool(self.looks.segments)
        return self.result

    def _arrived(self) -> list[pl.DataFrame]:
        if self.batch.rows is None:
            return []
        closed = self.step.last_closed(self.batch.before)
        rows, self.result.late = split_late(self.batch.rows, closed, self.step.as_entered)
        return [rows.select(self.step.kept)] if rows.height else []

    def _match(self, found: Sorted) -> None:
        keys, stops = self.to_search(found)
        matches, wakes = Found(), np.full(len(stops), END)
        if len(keys):
            search, stops[keys] = self.search(found, keys, BEGINNING)
            self._tell_of_attempts(found, search, wakes)
            matches = search.found
        needed = self._needed(found, matches)
        self._tell_of_matches(found, matches, wakes)
        self._wake_open(found, keys, stops, wakes)
        if self.step.matching.timeouts:
            self._wake(found, needed, self.settles, wakes, needed < found.begins[1:])
        self._keep(found, needed)
        some = np.flatnonzero(wakes < END)
        self.look_again(found, some, wakes[some])

    def _keep(self, found: Sorted, needed: Numbers) -> None:
        until = found.at[found.begins[1:] - 1] + self.settles + 1
        known = np.isin(found.rows["__hash"].to_numpy()[found.begins[:-1]], self.known)
        nothing = needed - self.step.reach[0] >= found.begins[1:]
        self.keep(found, needed, until, known & nothing)

    def _unsettled(self, found: Sorted) -> Numbers:
        """Of each key the first row for which a match that begins with it may still change."""
        settled = np.append(0, np.cumsum(found.at + self.settles < self.batch.after))
        count: Numbers = settled[found.begins[1:]] - settled[found.starts]
        return found.starts + count

    def _needed(self, found: Sorted, matches: Found) -> Numbers:
        """Of each key the first start that is not settled: not within a match that is."""
        bound = self._unsettled(found)
        needed, after = bound.copy(), self.step.matching.after
        keys = found.keys_of(matches.first).tolist()
        for key, first, labels in zip(keys, matches.first, matches.labels, strict=True):
            if first < bound[key]:
                needed[key] = max(needed[key], after(first, labels))
        if self.step.shifted:  # what a row may be changes with its neighbours
            return needed
        begin = found.mask & self.step.matching.automaton.first_mask != 0
        begin |= found.at >= self.batch.after  # a straggler before it may be a beginning
        number = np.where(begin, np.arange(len(begin)), len(begin))
        following = np.append(np.minimum.accumulate(number[::-1])[::-1], len(begin))
        next_one: Numbers = following[needed]
        return np.minimum(next_one, found.begins[1:])

    def _settles_now(self, began: Numbers) -> Truths:
        """Whether what began then is settled with this batch, and was not before."""
        over = began + self.settles
        return (over >= self.batch.before) & (over < self.batch.after)

    def _tell_of_attempts(self, found: Sorted, search: Search, wakes: Numbers) -> None:
        """Partial matches, and attempts that were given up, are told when they are settled."""
        given_up = np.array(search.given_up, np.int64)
        settled = self._settles_now(found.at[given_up])
        self.failures += self.given_up(found.rows, given_up[settled].tolist())
        self._wake_keys(found, given_up, wakes)
        first = np.array(search.timed_out.first, np.int64)
        partial = search.timed_out.chosen(self._settles_now(found.at[first]))
        if partial.first:
            results = Results(self.step, self.state, self.batch, found.rows)
            self.result.streams[TIMED_OUT] = [results.told(partial, timed_out=True)]
            self.failures += results.failures

    def _tell_of_matches(self, found: Sorted, matches: Found, wakes: Numbers) -> None:
        """What differs from what was told before."""
        first = np.array(matches.first, np.int64)
        matches = matches.chosen(found.at[first] + self.settles >= self.batch.before)
        results = Results(self.step, self.state, self.batch, found.rows)
        self.result.changes = self.given.changed(found, matches, results)
        if results.failures:  # they are told when they are settled
            self._wake_keys(found, first, wakes)
            settled = pl.Series(self._settles_now(results.lost[BEGAN].to_numpy()))
            places = set(results.lost.filter(settled).select("__pos", "__sub").rows())
            self.failures += [each for each in results.failures if each.place[1:] in places]

    def _wake_keys(self, found: Sorted, starts: Numbers, wakes: Numbers) -> None:
        """Keys are looked at again when these starts are settled."""
        over = found.at[starts] + self.settles + 1
        later = over > self.batch.after
        np.minimum.at(wakes, found.keys_of(starts[later]), over[later])

    def _wake_open(self, found: Sorted, keys: Numbers, stops: Numbers, wakes: Numbers) -> None:
        """Time alone may decide a preferred way that did not come about, a timeout, or that there
        is no next row."""
        held = found.ends < found.begins[1:]
        chosen = held | self.step.matching.automaton.times_out
        chosen[keys] = True
        row = np.where(held, found.ends, stops)
        self._wake(found, row, self.step.matching.within, wakes, chosen & (row < found.begins[1:]))

    def _wake(
        self, found: Sorted, row: Numbers, after: int, wakes: Numbers, chosen: Truths
    ) -> None:
        some = np.flatnonzero(chosen)
        wakes[some] = np.minimum(wakes[some], found.at[row[some]] + after + 1)
