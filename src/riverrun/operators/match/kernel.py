"""The kernel of patterns: one page through one batch.

Rows wait until the clock has passed them, so that they are matched in the order of their time. Of
each key the rows from the first start on that is not decided are kept, and searched again with
those that come: no state of the automaton is kept, and how input was cut into batches changes when
a match appears, never what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import Batch, Result, StepState, begins, split_late
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.match.measures import Numbers
from riverrun.operators.match.prefilter import Keys, looked_through
from riverrun.operators.match.python_code import values
from riverrun.operators.match.results import Results
from riverrun.operators.match.search import Found, Rows, Search
from riverrun.operators.match.spec import MASK, TIMED_OUT, MatchSpec

CONTEXT = "__context"
"""Whether a kept row is there only to be looked at from those after it."""
UNTIL, DEAD = "__until", "__dead"


@dataclass(frozen=True, kw_only=True)
class Match(MatchSpec):
    def advance(self, state: StepState, batch: Batch) -> Result:
        return _Visit(self, state, batch).run()


@dataclass
class _Sorted:
    """Rows at hand, by key and then by time."""

    rows: pl.DataFrame
    begins: Numbers
    """Where each key begins; the last is the end of all."""
    starts: Numbers
    """Where matches of each key may begin."""
    ends: Numbers
    """Up to where its rows are known well enough."""
    clocks: Numbers
    at: Numbers
    mask: Numbers
    """Which conditions hold, those on neighbours too."""


class _Visit:
    def __init__(self, step: Match, state: StepState, batch: Batch) -> None:
        self.step, self.state, self.batch = step, state, batch
        self.waiting = state.rows("waiting", within_key=None)
        self.open = state.rows("open", together=True)
        self.looks = state.rows("looks")
        self.key = ["__hash", *step.keys]
        self.result = Result()

    def run(self) -> Result:
        found = self._at_hand(self._released())
        if found is not None:
            self._match(self._sorted(found))
        else:
            self.open.append(None, self.batch.after)
            self.looks.append(None, self.batch.after)
        self.result.waiting = bool(self.waiting.segments or self.looks.segments)
        return self.result

    def _released(self) -> list[pl.DataFrame]:
        """Rows that the clock has passed with this batch; those ahead of it wait."""
        before, after = self.batch.before, self.batch.after
        parts = [part.drop("__slot") for part in self.waiting.between(before - 1, after - 1)]
        ahead = None
        if self.batch.rows is not None:
            rows, self.result.late = split_late(
                self.batch.rows, self.step.last_closed(before), self.step.as_entered
            )
            rows = rows.select(self.step.kept)
            passed = rows[TIME] < after
            if not passed.all():
                ahead = rows.filter(~passed).with_columns(__slot=pl.col(TIME))
                ahead, rows = ahead.sort("__slot", "__hash"), rows.filter(passed)
            parts.append(rows)
        self.waiting.append(ahead, after - 1)
        return [part for part in parts if part.height]

    def _at_hand(self, released: list[pl.DataFrame]) -> pl.DataFrame | None:
        """The rows of all keys that have something new, or whose time may be over."""
        touched = [part.select(self.key) for part in released]
        due = (each.due(self.batch.before, self.batch.after) for each in self.looks.segments)
        touched += [part.select(self.key) for part in due if part.height]
        if not touched:
            return None
        self.old = None
        if self.open.segments:
            wanted = pl.concat(touched).with_columns(__slot=pl.lit(0, pl.Int64))
            old = self.open.lookup(wanted)
            # what has ended before may still be in a segment
            self.old = None if old is None else old.filter(pl.col(UNTIL) > self.batch.before)
        columns = [*self.step.kept, *([CONTEXT] if self.step.reach[0] else [])]
        parts = [] if self.old is None else [self.old.select(columns)]
        if self.step.reach[0]:
            released = [part.with_columns(pl.lit(False).alias(CONTEXT)) for part in released]
        parts += [part.select(columns) for part in released]
        return pl.concat(parts) if parts else None

    def _sorted(self, rows: pl.DataFrame) -> _Sorted:
        rows = rows[_order(rows)]
        bounds = _bounds(rows["__hash"])
        if not self._one_key_each(rows, bounds):  # two keys with one hash
            rows = rows.sort(*self.key, TIME, "__pos", "__sub")
            by_key = rows.select(begins(self.key)).to_series()
            bounds = np.append(np.flatnonzero(by_key.to_numpy()), rows.height)
        at = rows[TIME].to_numpy()
        starts, ends = bounds[:-1], bounds[1:]
        if self.step.reach[0]:
            known = rows[CONTEXT].to_numpy().astype(np.int64)
            starts = starts + np.add.reduceat(known, starts)
        clocks = np.full(len(starts), self.batch.after)
        found = _Sorted(rows, bounds, starts, ends, clocks, at, rows[MASK].to_numpy())
        if self.step.shifted:
            self._look_aside(found)
        found.mask = self._passed_over(found.mask)
        return found

    def _one_key_each(self, rows: pl.DataFrame, bounds: Numbers) -> bool:
        """Whether rows of one hash are of one key."""
        inside = np.ones(rows.height, np.bool_)
        inside[bounds[:-1]] = False
        columns = (rows[name] for name in self.step.keys)
        return not any(
            (each.ne_missing(each.shift()).to_numpy() & inside).any() for each in columns
        )

    def _passed_over(self, mask: Numbers) -> Numbers:
        """Rows that another variable holds for are not passed over; what depends on earlier rows
        of a match is left to the search."""
        codes = self.step.conditions.dependent.codes
        for v, others in enumerate(self.step.matching.instead):
            for other in others:
                if not (codes and codes[other]):
                    mask = np.where(mask >> other & 1, mask & ~(1 << v), mask)
        return mask

    def _look_aside(self, found: _Sorted) -> None:
        """Adds columns of other rows of the key; rows whose next ones are to come are held."""
        within, at = self.step.matching.within, found.at
        begin, end = (
            np.repeat(each, np.diff(found.begins)) for each in (found.begins[:-1], found.begins[1:])
        )
        made = []
        for name, each in self.step.shifted:
            there = np.arange(len(at)) + each.shift
            known = (there >= begin) & (there < end)
            there = np.where(known, there, 0)
            known &= np.abs(at[there] - at) <= within
            taken = found.rows[each.column].gather(pl.Series(there))
            made.append(pl.select(pl.when(pl.Series(known)).then(taken)).to_series().alias(name))
        found.rows = found.rows.with_columns(made)
        if ahead := self.step.reach[1]:
            number = np.arange(len(at))
            held = (number + ahead >= end) & (at + within >= self.batch.after)
            first = np.where(held, number, len(at))
            found.ends = np.minimum(found.ends, np.minimum.reduceat(first, found.begins[:-1]))
            some = found.ends < found.begins[1:]
            found.clocks[some] = np.minimum(found.clocks[some], at[found.ends[some]])
            found.starts = np.minimum(found.starts, found.ends)
        if any(self.step.conditions.near):
            found.mask = found.mask & self._near(found.rows)

    def _near(self, rows: pl.DataFrame) -> Numbers:
        """Which conditions on neighbours hold."""
        missing = (
            f"CASE WHEN {text or 'true'} THEN {1 << n} ELSE 0 END"
            for n, text in enumerate(self.step.conditions.near)
        )
        query = f"SELECT ({' | '.join(missing)})::BIGINT AS near FROM rows"
        evaluator = shared_evaluator(self.batch.functions)
        names = [name for name in rows.columns if name not in ("__hash", CONTEXT)]
        made = evaluator.checked(query, rows.select(names).to_arrow(), str(self.step.at))
        return np.asarray(made["near"].to_numpy())

    def _match(self, found: _Sorted) -> None:
        matching = self.step.matching
        keys = Keys(found.at, found.mask, found.starts, found.ends, found.clocks)
        # a key without rows to start at has nothing to look for
        live = np.flatnonzero(found.starts < found.ends)
        needed = found.ends.copy()
        chosen = Keys(
            keys.at, keys.mask, *(each[live] for each in (keys.begins, keys.ends, keys.clocks))
        )
        searched, first = looked_through(matching.automaton, chosen, matching.within)
        if matching.timeouts:
            searched |= found.at[chosen.begins] + matching.within < chosen.clocks
        needed[live] = first
        if searched.any():
            self._search(found, live[searched], needed)
        wakes = np.full(len(needed), matching.timeouts or matching.automaton.times_out)
        wakes[live[searched]] = True
        self._keep(found, needed)
        self._look_again(found, needed, wakes)

    def _search(self, found: _Sorted, keys: Numbers, needed: Numbers) -> None:
        """Searches some of the keys, and tells what came of it."""
        step = self.step
        lengths = found.ends[keys] - found.starts[keys]
        offsets = np.append(0, np.cumsum(lengths))
        chosen = np.repeat(found.starts[keys] - offsets[:-1], lengths) + np.arange(offsets[-1])
        columns = [
            values(found.rows[name].gather(pl.Series(chosen)).to_list())
            for name in step.conditions.dependent.columns
        ]
        rows = Rows(found.at[chosen].tolist(), found.mask[chosen].tolist(), columns)
        search = Search(step.matching, rows, self.batch.before)
        for n, (key, clock) in enumerate(
            zip(keys.tolist(), found.clocks[keys].tolist(), strict=True)
        ):
            stop = search.key(int(offsets[n]), int(offsets[n + 1]), clock)
            needed[key] = found.starts[key] + stop - offsets[n]
        results = Results(step, self.state, self.batch, found.rows)
        for name, each in (("", search.found), (TIMED_OUT, search.timed_out)):
            if each.first:
                self.result.streams[name] = results.told(_placed(each, chosen), name == TIMED_OUT)
        failures = [*results.failures, *self._given_up(found.rows, chosen, search.given_up)]
        self.result.failed = judge(failures, self.batch.topics)

    def _given_up(self, rows: pl.DataFrame, chosen: Numbers, given_up: list[int]) -> list[Failure]:
        """Starts of matches that would have more rows than is allowed."""
        step, cause = self.step, f"a match would have more than {self.step.matching.max_rows} rows"
        columns = [*step.keys, *(name for name in step.carried if name not in step.keys)]
        found = []
        for start in chosen[given_up].tolist():
            row = rows.row(start, named=True)
            at = pl.Series([row[TIME]]).cast(pl.Datetime("us"))[0]
            place = Place(at, row["__pos"], row["__sub"])
            key = {name: row[name] for name in step.keys}
            shown = {name: row[name] for name in columns}
            found.append(Failure(place, step.name, cause, step.on_error, key, shown))
        return found

    def _keep(self, found: _Sorted, needed: Numbers) -> None:
        """Of each key the rows from the first one on that is needed, and those to look back at."""
        step, batch = self.step, self.batch
        from_ = np.maximum(needed - step.reach[0], found.begins[:-1])
        left = found.begins[1:] - from_
        until = found.at[found.begins[1:] - 1] + step.matching.within + 1
        left[until <= batch.after] = 0
        # a key that had rows before and has none now gets a mark; what is old is before the clock
        gone = (left <= 0) & (found.at[found.begins[:-1]] < batch.before)
        left[gone], from_[gone] = 1, found.begins[:-1][gone]
        until[gone] = batch.before + step.matching.within + 1
        gone &= until > batch.after
        live = np.flatnonzero((left > 0) & (until > batch.after))
        sizes = left[live]
        chosen = np.repeat(from_[live] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        made = [
            pl.Series("__slot", np.zeros(len(chosen), np.int64)),
            pl.Series(UNTIL, np.repeat(until[live], sizes), dtype=pl.Int64),
            pl.Series(DEAD, np.repeat(gone[live], sizes)),
        ]
        if step.reach[0]:
            made.append(pl.Series(CONTEXT, chosen < np.repeat(needed[live], sizes)))
        rows = found.rows.select(step.kept)[chosen].with_columns(made)
        self.open.append(rows, batch.after)

    def _look_again(self, found: _Sorted, needed: Numbers, wakes: npt.NDArray[np.bool_]) -> None:
        """Notes when time alone may decide something: a preferred way that did not come about, a
        timeout, or that there is no next row."""
        held = found.ends < found.begins[1:]
        row = np.where(held, found.ends, needed)
        chosen = np.flatnonzero((held | wakes) & (row < found.begins[1:]))
        if not len(chosen):
            self.looks.append(None, self.batch.after)
            return
        until = found.at[row[chosen]] + self.step.matching.within + 1
        rows = (
            found.rows[found.begins[chosen]]
            .select(self.key)
            .with_columns(__slot=pl.lit(0, pl.Int64), __until=pl.Series(until, dtype=pl.Int64))
        )
        self.looks.append(rows.sort("__hash"), self.batch.after)


def _bounds(hashes: pl.Series) -> Numbers:
    found = hashes.to_numpy()
    return np.concatenate([[0], np.flatnonzero(found[1:] != found[:-1]) + 1, [len(found)]])


def _order(rows: pl.DataFrame) -> Numbers:
    """By hash and time; where times are the same, by position."""
    hashes, at = rows["__hash"].to_numpy(), rows[TIME].to_numpy()
    order = np.lexsort((at, hashes))
    tied = (hashes[order][1:] == hashes[order][:-1]) & (at[order][1:] == at[order][:-1])
    if not tied.any():
        return order
    return np.lexsort((rows["__sub"].to_numpy(), rows["__pos"].to_numpy(), at, hashes))


def _placed(found: Found, chosen: Numbers) -> Found:
    """With rows by their number among all."""
    return Found(chosen[found.first].tolist(), found.labels, found.by_time)
