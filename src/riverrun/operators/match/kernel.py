"""The kernel of patterns: one page through one batch.

Rows wait until the clock has passed them, so that they are matched in the order of their time. How
input was cut into batches changes when a match appears, never what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riverrun.kernels.letters import judge
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.operators.match.in_time import released
from riverrun.operators.match.measures import Numbers
from riverrun.operators.match.prefilter import Truths
from riverrun.operators.match.results import Results
from riverrun.operators.match.spec import TIMED_OUT, MatchSpec
from riverrun.operators.match.visit import Sorted, Visit


@dataclass(frozen=True, kw_only=True)
class Match(MatchSpec):
    kind = "match"

    def advance(self, state: StepState, batch: Batch) -> Result:
        return _InOrder(self, state, batch).run()


class _InOrder(Visit):
    """Rows are matched once the clock has passed them."""

    def __init__(self, step: Match, state: StepState, batch: Batch) -> None:
        super().__init__(step, state, batch)
        self.waiting = state.rows("waiting", within_key=None)

    def run(self) -> Result:
        rows = self.at_hand(released(self.step, self.batch, self.waiting, self.result))
        if rows is not None:
            self._match(self.sorted(rows))
        else:
            self.open.append(None, self.batch.after)
            self.looks.append(None, self.batch.after)
        self.result.waiting = bool(self.waiting.segments or self.looks.segments)
        return self.result

    def _match(self, found: Sorted) -> None:
        matching = self.step.matching
        keys, needed = self.to_search(found)
        if len(keys):
            needed[keys] = self._search(found, keys)
        wakes = np.full(len(needed), matching.timeouts or matching.automaton.times_out)
        wakes[keys] = True
        self._keep(found, needed)
        self._look_again(found, needed, wakes)

    def _search(self, found: Sorted, keys: Numbers) -> Numbers:
        """Searches some of the keys, and tells what came of it."""
        search, stops = self.search(found, keys, self.batch.before)
        results = Results(self.step, self.state, self.batch, found.rows)
        for name, each in (("", search.found), (TIMED_OUT, search.timed_out)):
            if each.first:
                self.result.streams[name] = [results.told(each, timed_out=name == TIMED_OUT)]
        failures = [*results.failures, *self.given_up(found.rows, search.given_up)]
        self.result.failed = judge(failures, self.batch.topics)
        return stops

    def _keep(self, found: Sorted, needed: Numbers) -> None:
        before, within = self.batch.before, self.step.matching.within
        until = found.at[found.begins[1:] - 1] + within + 1
        needed = np.where(until <= self.batch.after, found.begins[1:] + self.step.reach[0], needed)
        # what is old is before the clock
        nothing = needed - self.step.reach[0] >= found.begins[1:]
        gone = nothing & (found.at[found.begins[:-1]] < before)
        until[gone] = before + within + 1
        self.keep(found, needed, until, gone)

    def _look_again(self, found: Sorted, needed: Numbers, wakes: Truths) -> None:
        """Time alone may decide a preferred way that did not come about, a timeout, or that there
        is no next row."""
        held = found.ends < found.begins[1:]
        row = np.where(held, found.ends, needed)
        keys = np.flatnonzero((held | wakes) & (row < found.begins[1:]))
        self.look_again(found, keys, found.at[row[keys]] + self.step.matching.within + 1)
