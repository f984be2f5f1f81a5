"""What both kernels of patterns do in one page and one batch: they differ in when rows are looked
at, and in what leaves.

Of each key the rows from the first start on that is not decided are kept, and searched again with
those that come: no state of the automaton is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import DEAD, TIME, UNTIL
from riverrun.kernels.changes import begins
from riverrun.kernels.letters import Failure, Place
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.match.measures import Numbers
from riverrun.operators.match.prefilter import Keys, Truths, looked_through
from riverrun.operators.match.python_code import values
from riverrun.operators.match.search import Rows, Search
from riverrun.operators.match.spec import MASK, MatchSpec

CONTEXT = "__context"
"""Whether a kept row is there only to be looked at from those after it."""
NO_SLOT = pl.lit(0, pl.Int64).alias("__slot")


@dataclass
class Sorted:
    """Rows at hand, by key and then by time."""

    rows: pl.DataFrame
    begins: Numbers
    """Where each key begins; the last is the end of all."""
    starts: Numbers
    """Where matches of each key may begin."""
    ends: Numbers
    """Up to where its rows are known well enough."""
    clocks: Numbers
    seen: Numbers
    """How far time has come, by rows of the key too, if they may be ahead of the clock."""
    at: Numbers
    mask: Numbers
    """Which conditions hold, those on neighbours too."""

    @property
    def sizes(self) -> Numbers:
        return np.diff(self.begins)

    def keys_of(self, rows: Numbers | list[int]) -> Numbers:
        """The number of the key that each row is of."""
        return np.searchsorted(self.begins, rows, side="right") - 1


class Visit:
    def __init__(self, step: MatchSpec, state: StepState, batch: Batch) -> None:
        self.step, self.state, self.batch = step, state, batch
        self.open = state.rows("open", together=True)
        self.looks = state.rows("looks")
        self.key = ["__hash", *step.keys]
        self.known = np.empty(0, np.uint64)
        """The hashes of keys of which there were rows before."""
        self.result = Result()

    def at_hand(self, new: list[pl.DataFrame]) -> pl.DataFrame | None:
        """The rows of all keys that have something new, or whose time may be over."""
        touched = [part.select(self.key) for part in new]
        due = (each.due(self.batch.before, self.batch.after) for each in self.looks.segments)
        touched += [part.select(self.key) for part in due if part.height]
        if not touched:
            return None
        columns = [*self.step.kept, *([CONTEXT] if self.step.reach[0] else [])]
        parts = []
        if self.open.segments:
            old = self.open.lookup(pl.concat(touched).with_columns(NO_SLOT))
            if old is not None:
                self.known = old["__hash"].to_numpy()
                # what has ended before may still be in a segment
                parts.append(old.filter(pl.col(UNTIL) > self.batch.before).select(columns))
        if self.step.reach[0]:
            new = [part.with_columns(pl.lit(False).alias(CONTEXT)) for part in new]
        parts += [part.select(columns) for part in new]
        rows = pl.concat(parts) if parts else None
        return rows if rows is not None and rows.height else None

    def sorted(self, rows: pl.DataFrame) -> Sorted:
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
        seen = np.maximum(clocks, at[ends - 1])
        found = Sorted(rows, bounds, starts, ends, clocks, seen, at, rows[MASK].to_numpy())
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

    def _look_aside(self, found: Sorted) -> None:
        """Adds columns of other rows of the key; rows whose next ones are to come are held."""
        within, at = self.step.matching.within, found.at
        begin, end, seen = (
            np.repeat(each, found.sizes)
            for each in (found.begins[:-1], found.begins[1:], found.seen)
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
            held = (number + ahead >= end) & (at + within >= seen)
            first = np.where(held, number, len(at))
            found.ends = np.minimum(found.ends, np.minimum.reduceat(first, found.begins[:-1]))
            some = found.ends < found.begins[1:]
            for times in (found.clocks, found.seen):
                times[some] = np.minimum(times[some], at[found.ends[some]])
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

    def to_search(self, found: Sorted) -> tuple[Numbers, Numbers]:
        """The keys that have to be searched; of the others, the first row that a match may still
        begin at."""
        matching = self.step.matching
        # a key without rows to start at has nothing to look for
        live = np.flatnonzero(found.starts < found.ends)
        starts, ends, seen = (each[live] for each in (found.starts, found.ends, found.seen))
        keys = Keys(found.at, found.mask, starts, ends, seen)
        searched, first = looked_through(matching.automaton, keys, matching.within)
        searched |= ends - starts >= matching.max_rows  # some attempt may have to be given up
        if matching.timeouts:
            searched |= found.at[starts] + matching.within < found.clocks[live]
        needed = found.ends.copy()
        needed[live] = first
        return live[searched], needed

    def search(self, found: Sorted, keys: Numbers, told: int) -> tuple[Search, Numbers]:
        """Searches some of the keys: what was found, with rows by their number among all, and where
        each has stopped. Of every match, those that ended before `told` were told before."""
        step = self.step
        lengths = found.ends[keys] - found.starts[keys]
        offsets = np.append(0, np.cumsum(lengths))
        chosen = np.repeat(found.starts[keys] - offsets[:-1], lengths) + np.arange(offsets[-1])
        columns = [
            values(found.rows[name].gather(pl.Series(chosen)).to_list())
            for name in step.conditions.dependent.columns
        ]
        rows = Rows(found.at[chosen].tolist(), found.mask[chosen].tolist(), columns)
        search = Search(step.matching, rows, told)
        stops = np.empty(len(keys), np.int64)
        ways = zip(
            *(
                each.tolist()
                for each in (offsets, offsets[1:], found.clocks[keys], found.seen[keys])
            ),
            strict=False,
        )
        for n, (start, end, clock, seen) in enumerate(ways):
            stops[n] = search.key(start, end, clock, seen)
        for kind in (search.found, search.timed_out):
            kind.first = chosen[kind.first].tolist()
        search.given_up = chosen[search.given_up].tolist()
        return search, stops - offsets[:-1] + found.starts[keys]

    def given_up(self, rows: pl.DataFrame, starts: list[int]) -> list[Failure]:
        """Starts of matches that would have more rows than is allowed."""
        step, cause = self.step, f"a match would have more than {self.step.matching.max_rows} rows"
        columns = [*step.keys, *(name for name in step.carried if name not in step.keys)]
        found = []
        for start in starts:
            row = rows.row(start, named=True)
            at = pl.Series([row[TIME]]).cast(pl.Datetime("us"))[0]
            place = Place(at, row["__pos"], row["__sub"])
            key = {name: row[name] for name in step.keys}
            shown = {name: row[name] for name in columns}
            found.append(Failure(place, step.name, cause, step.on_error, key, shown))
        return found

    def keep(self, found: Sorted, needed: Numbers, until: Numbers, gone: Truths) -> None:
        """Of each key the rows from the first one on that is needed, and those to look back at.
        `gone`: keys that had rows before and have none now get a mark."""
        from_ = np.maximum(needed - self.step.reach[0], found.begins[:-1])
        from_[gone] = found.begins[:-1][gone]
        left = np.where(gone, 1, found.begins[1:] - from_)
        live = np.flatnonzero((left > 0) & (until > self.batch.after))
        sizes = left[live]
        chosen = np.repeat(from_[live] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        made = [
            pl.Series("__slot", np.zeros(len(chosen), np.int64)),
            pl.Series(UNTIL, np.repeat(until[live], sizes), dtype=pl.Int64),
            pl.Series(DEAD, np.repeat(gone[live], sizes)),
        ]
        if self.step.reach[0]:
            made.append(pl.Series(CONTEXT, chosen < np.repeat(needed[live], sizes)))
        rows = found.rows.select(self.step.kept)[chosen].with_columns(made)
        self.open.append(rows, self.batch.after)

    def look_again(self, found: Sorted, keys: Numbers, until: Numbers) -> None:
        """Notes when time alone may decide something of some keys."""
        rows = None
        if len(keys):
            noted = pl.Series(UNTIL, until, dtype=pl.Int64)
            rows = found.rows[found.begins[keys]].select(self.key)
            rows = rows.with_columns(NO_SLOT, noted).sort("__hash")
        self.looks.append(rows, self.batch.after)


def _bounds(hashes: pl.Series) -> Numbers:
    found = hashes.to_numpy()
    return np.concatenate([[0], np.flatnonzero(found[1:] != found[:-1]) + 1, [len(found)]])


def _order(rows: pl.DataFrame) -> npt.NDArray[np.intp]:
    """By hash and time; where times are the same, by position."""
    hashes, at = rows["__hash"].to_numpy(), rows[TIME].to_numpy()
    order = np.lexsort((at, hashes))
    tied = (hashes[order][1:] == hashes[order][:-1]) & (at[order][1:] == at[order][:-1])
    if not tied.any():
        return order
    return np.lexsort((rows["__sub"].to_numpy(), rows["__pos"].to_numpy(), at, hashes))
