"""Keys with rules: their rows, which conditions hold there, and the matches that are found.

A pair of a key and a rule is visited if one of the new rows can end a match and all variables that
a match needs are there, or if something of it was left undecided before.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.durations import BEGINNING, END
from riverrun.kernels.letters import Failure, Place
from riverrun.kernels.operator import Batch, StepState
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.match.automaton import Automaton
from riverrun.operators.match.prefilter import Keys, looked_through
from riverrun.operators.match.python_code import values
from riverrun.operators.match.results import Results
from riverrun.operators.match.search import Rows, Search
from riverrun.operators.rules.at_hand import AtHand, Numbers, Truths, evaluated, first_from
from riverrun.operators.rules.groups import Group
from riverrun.operators.rules.shape import WHICH

MANY = 1 << 21
"""Rows of pairs that are looked at together."""


@dataclass
class Pairs:
    """Some pairs, by key and then by rule."""

    key: Numbers
    rule: Numbers
    first: Numbers
    """The row of the page that a match may begin at."""
    begin: Numbers
    """The first row of it that is looked at."""
    end: Numbers
    clock: Numbers

    def some(self, chosen: Numbers | Truths | slice) -> Pairs:
        return Pairs(*(each[chosen] for each in vars(self).values()))

    @property
    def sizes(self) -> Numbers:
        return self.end - self.begin


@dataclass
class Outcome:
    """What came of pairs that were searched, or that are to be looked at again."""

    pairs: Pairs
    needed: Numbers
    """The first row of each that is still needed."""
    searched: Truths
    looks: Truths
    """Whether it is to be visited with the next row, or when its time is over."""
    waits: Numbers
    """The row whose time that is."""


class PairVisit:
    """The pairs of one group in one page and batch."""

    def __init__(self, group: Group, page: AtHand, state: StepState, batch: Batch) -> None:
        self.group, self.page, self.state, self.batch = group, page, state, batch
        self.spec, self.shape = group.shape.spec, group.shape
        self.evaluator = shared_evaluator(batch.functions)
        self.told: list[pl.DataFrame] = []
        self.timed_out: list[pl.DataFrame] = []
        self.failures: list[Failure] = []

    def pairs(self, key: Numbers, rule: Numbers) -> Pairs:
        """With the rows that are to be looked at: those that the rule sees, and that no attempt
        was decided with before."""
        page, group, before = self.page, self.group, self.batch.before
        low, high = page.begins[key], page.begins[key + 1]
        seen = first_from(page.at, low, high, group.begins[rule])
        if before > BEGINNING:
            since = np.full(len(key), before - self.shape.undecided)
            first = first_from(page.at, seen, high, since)
        else:
            first = seen
        end = high
        if (group.ends < END).any():
            end = first_from(page.at, first, high, group.ends[rule])
        clock = np.minimum(group.ends[rule], self.batch.after)
        return Pairs(key, rule, first, seen, end, clock)

    def visit(self, pairs: Pairs) -> list[Outcome]:
        """`pairs` with their first rows; all of their rows together may be too many."""
        pairs.begin = np.maximum(pairs.begin, pairs.first - self.spec.reach[0])
        pairs = pairs.some(pairs.first < pairs.end)
        if not len(pairs.key):
            return []
        parts = np.cumsum(pairs.sizes) // MANY
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        return [self._visit(pairs.some(slice(a, b))) for a, b in pairwise(cuts)]

    def _visit(self, pairs: Pairs) -> Outcome:
        spread = _Spread(self.page.at, pairs)
        mask = self._mask(spread)
        ends = spread.offsets[1:].copy()
        clocks, starts = pairs.clock, spread.offsets[:-1] + pairs.first - pairs.begin
        held = np.zeros(len(ends), np.bool_)
        if self.spec.shifted:
            ends, clocks, near = self._beside(spread)
            mask, starts, held = mask & near, np.minimum(starts, ends), ends < spread.offsets[1:]
        matching = self.spec.matching
        starts = np.minimum(np.maximum(starts, _first(spread, mask, matching.automaton)), ends)
        searched, needed = np.zeros(len(ends), np.bool_), ends.copy()
        live = np.flatnonzero(starts < ends)
        keys = Keys(spread.at, mask, starts[live], ends[live], clocks[live])
        searched[live], needed[live] = looked_through(matching.automaton, keys, matching.within)
        if matching.timeouts:
            searched[live] |= spread.at[keys.begins] + matching.within < keys.clocks
        if searched.any():
            chosen = np.flatnonzero(searched)
            self._search(spread, mask, (chosen, starts, ends, clocks), needed)
        open_ = needed < spread.offsets[1:]
        wakes = open_ & (searched | held | matching.automaton.times_out | matching.timeouts)
        place = pairs.begin - spread.offsets[:-1]
        waits = place + np.where(held, ends, needed)
        return Outcome(pairs, place + needed, searched, wakes, waits)

    def _mask(self, spread: _Spread) -> Numbers:
        """Which conditions on a row alone hold, a bit for each variable."""
        found = np.zeros(len(spread.rows), np.int64)
        for v, each in enumerate(self.shape.filters):
            holds: Truths | None = None
            for text in each.shared:
                own = self.page.conditions[text][spread.rows]
                holds = own if holds is None else holds & own
            for atom in each.atoms:
                own = self.group.holds(atom, self.page, spread.rows, spread.rules)
                holds = own if holds is None else holds & own
            found |= np.int64(1 << v) if holds is None else holds.astype(np.int64) << v
        if any(each.rest for each in self.shape.filters):
            made = {
                f"r{v}": " AND ".join(f"({text})" for text in each.rest)
                for v, each in enumerate(self.shape.filters)
                if each.rest
            }
            rest = evaluated(self.evaluator, made, self._frame(spread))
            for name in rest.columns:
                bit = np.int64(1 << int(name[1:]))
                found &= np.where(rest[name].fill_null(False).to_numpy(), ~np.int64(0), ~bit)
        return found

    def _frame(self, spread: _Spread, chosen: Numbers | None = None) -> pl.DataFrame:
        """Rows as the pattern sees them: with the parameters of their rules, and what is computed
        of both."""
        rows = spread.rows if chosen is None else spread.rows[chosen]
        rules = spread.rules if chosen is None else spread.rules[chosen]
        frame = self.page.plain[rows]
        if self.shape.types:
            frame = frame.hstack(self.group.parameters[rules])
        frame = frame.with_columns(pl.Series(WHICH, rules, pl.Int64))
        if self.spec.computed:
            made = dict(self.spec.computed)
            frame = frame.hstack(evaluated(self.evaluator, made, frame))
        return frame

    def _beside(self, spread: _Spread) -> tuple[Numbers, Numbers, Numbers]:
        """Adds columns of other rows of the pair; up to where rows are known well enough, how far
        time has come for each pair, and which conditions on neighbours hold."""
        spec, at, within = self.spec, spread.at, self.spec.matching.within
        frame = self._frame(spread)
        sizes = spread.pairs.sizes
        begin, end = (np.repeat(e, sizes) for e in (spread.offsets[:-1], spread.offsets[1:]))
        number = np.arange(len(at))
        made = []
        for name, each in spec.shifted:
            there = number + each.shift
            known = (there >= begin) & (there < end)
            there = np.where(known, there, 0)
            known &= np.abs(at[there] - at) <= within
            taken = frame[each.column].gather(pl.Series(there))
            made.append(pl.select(pl.when(pl.Series(known)).then(taken)).to_series().alias(name))
        spread.beside = pl.DataFrame(made)
        ends, clocks = spread.offsets[1:].copy(), spread.pairs.clock.copy()
        if ahead := spec.reach[1]:
            held = (number + ahead >= end) & (at + within >= np.repeat(clocks, sizes))
            first = np.minimum.reduceat(np.where(held, number, len(at)), spread.offsets[:-1])
            ends = np.minimum(ends, first)
            some = ends < spread.offsets[1:]
            clocks[some] = np.minimum(clocks[some], at[ends[some]])
        near = np.full(len(at), ~np.int64(0))
        asked = {f"n{n}": text for n, text in enumerate(spec.conditions.near) if text}
        if asked:
            held = evaluated(self.evaluator, asked, frame.hstack(spread.beside))
            for name in held.columns:
                bit = np.int64(1 << int(name[1:]))
                near &= np.where(held[name].fill_null(False).to_numpy(), ~np.int64(0), ~bit)
        return ends, clocks, near

    def _search(
        self,
        spread: _Spread,
        mask: Numbers,
        where: tuple[Numbers, Numbers, Numbers, Numbers],
        needed: Numbers,
    ) -> None:
        """Searches some of the pairs, and tells what came of it."""
        chosen, starts, ends, clocks = where
        lengths = ends[chosen] - starts[chosen]
        offsets = np.append(0, np.cumsum(lengths))
        rows = np.repeat(starts[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        dependent = self.spec.conditions.dependent.columns
        frame = self._searched(spread, rows) if dependent else None
        columns = [] if frame is None else [values(frame[name].to_list()) for name in dependent]
        search = Search(
            self.spec.matching,
            Rows(spread.at[rows].tolist(), mask[rows].tolist(), columns),
            self.batch.before,
        )
        for n, pair in enumerate(chosen.tolist()):
            clock = int(clocks[pair])
            stop = search.key(int(offsets[n]), int(offsets[n + 1]), clock, clock)
            needed[pair] = starts[pair] + stop - offsets[n]
        if search.found.first or search.timed_out.first or search.given_up:
            frame = self._searched(spread, rows) if frame is None else frame
            self._tell(frame, search)

    def _searched(self, spread: _Spread, rows: Numbers) -> pl.DataFrame:
        frame = self._frame(spread, rows)
        return frame if spread.beside is None else frame.hstack(spread.beside[rows])

    def _tell(self, frame: pl.DataFrame, search: Search) -> None:
        results = Results(self.spec, self.state, self.batch, frame)
        if search.found.first:
            self.told.append(results.told(search.found))
        if search.timed_out.first:
            self.timed_out.append(results.told(search.timed_out, timed_out=True))
        self.failures += results.failures
        cause = f"a match would have more than {self.spec.matching.max_rows} rows"
        names = [n for n in self.spec.entering.visible.names if n in frame.columns]
        for start in search.given_up:
            row = frame.row(start, named=True)
            at = pl.Series([row[TIME]]).cast(pl.Datetime("us"))[0]
            place = Place(at, row["__pos"], row["__sub"])
            named = f"{self.spec.name}, rule {self.group.rules[row[WHICH]].name}"
            key = {name: row[name] for name in self.spec.keys if name != WHICH}
            shown = {name: row[name] for name in names}
            self.failures.append(Failure(place, named, cause, self.spec.on_error, key, shown))


def _first(spread: _Spread, mask: Numbers, automaton: Automaton) -> Numbers:
    """Of each pair the first row that a match may begin with; else the end of all."""
    begins = (mask & automaton.first_mask) != 0
    rows = np.where(begins, np.arange(len(mask)), len(mask))
    found: Numbers = np.minimum.reduceat(rows, spread.offsets[:-1])
    return found


class _Spread:
    """The rows of pairs, one pair after the other; a row of the page is there once for each."""

    def __init__(self, at: Numbers, pairs: Pairs) -> None:
        self.pairs, sizes = pairs, pairs.sizes
        self.offsets = np.append(0, np.cumsum(sizes))
        self.rows = np.repeat(pairs.begin - self.offsets[:-1], sizes) + np.arange(self.offsets[-1])
        self.rules = np.repeat(pairs.rule, sizes)
        self.at = at[self.rows]
        self.beside: pl.DataFrame | None = None
