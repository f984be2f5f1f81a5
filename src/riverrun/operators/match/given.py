"""What was told of the matches of keys, for as long as a straggler may change it."""

from __future__ import annotations

import numpy as np
import polars as pl

from riverrun.columns import DEAD, EVENT, PLACE, REVISION, UNTIL
from riverrun.kernels import changes
from riverrun.kernels.changes import differing
from riverrun.kernels.operator import Batch, StepState
from riverrun.operators.match.prefilter import Truths
from riverrun.operators.match.results import BEGAN, MATCHED, Results
from riverrun.operators.match.search import Found
from riverrun.operators.match.spec import MatchSpec
from riverrun.operators.match.visit import NO_SLOT, Sorted

ORDER = ("__slot", "__hash", BEGAN, EVENT)


class Given:
    def __init__(self, step: MatchSpec, state: StepState, batch: Batch, settles: int) -> None:
        """`settles`: how long after the first row of a match it may still change."""
        self.step, self.batch, self.settles = step, batch, settles
        self.kept = state.rows("given", together=True)
        self.key = ["__hash", *step.keys]

    def changed(self, found: Sorted, matches: Found, results: Results) -> list[pl.DataFrame]:
        """What is taken back, and what is there instead, when these are the matches of the keys
        that may still change."""
        was = self._was(found)
        if was is None and not matches.first:
            self.kept.append(None, self.batch.after)
            return []
        if was is None:
            now = self._told(matches, results)
            return self._replaced(now.clear(), now.clear(), now)
        ids = results.ids(matches) if matches.first else np.empty(0, np.uint64)
        if self._may_differ:
            stays = was.clear()
        else:
            stays = was.filter(was[MATCHED].is_in(pl.Series(ids).implode()))
            matches = matches.chosen(~np.isin(ids, was[MATCHED].to_numpy()))
            was = was.filter(~was[MATCHED].is_in(pl.Series(ids).implode()))
        now = self._told(matches, results) if matches.first else was.clear()
        return self._replaced(was, stays, now.select(was.columns))

    @property
    def _may_differ(self) -> bool:
        """Whether a match of the same rows may be told in another way: by what is beside them."""
        taken = {value.column for value in self.step.measures.values}
        return any(name in taken for name, _ in self.step.shifted)

    def _was(self, found: Sorted) -> pl.DataFrame | None:
        keys = found.rows[found.begins[:-1]].select(self.key).with_columns(NO_SLOT)
        known = self.kept.lookup(keys)
        if known is None or not known.height:
            return None
        return known.sort(ORDER)

    def _told(self, matches: Found, results: Results) -> pl.DataFrame:
        told = results.told(matches, named=True).drop(PLACE)
        return told.with_columns(
            NO_SLOT,
            pl.lit(0, pl.Int64).alias(REVISION),
            (pl.col(BEGAN) + self.settles + 1).alias(UNTIL),
            pl.lit(False).alias(DEAD),
        )

    def _replaced(
        self, was: pl.DataFrame, stays: pl.DataFrame, now: pl.DataFrame
    ) -> list[pl.DataFrame]:
        """`stays`: rows of matches that are as they were."""
        settled = was[BEGAN] + self.settles < self.batch.before
        settled_too = stays[BEGAN] + self.settles < self.batch.before
        ended, was = was, was.filter(~settled)
        stays = stays.filter(~settled_too)
        same_was, same_now, revision = self._compared(was, now)
        now = now.with_columns(revision)
        gone, came = was.filter(~pl.Series(same_was)), now.filter(~pl.Series(same_now))
        self._keep(pl.concat([ended, stays, now]), pl.concat([stays, now]), gone, came)
        names = self.step.schema.names
        told = [changes.changed(gone, names, -1), changes.changed(came, names, 1)]
        return [each for each in told if each.height]

    def _compared(self, was: pl.DataFrame, now: pl.DataFrame) -> tuple[Truths, Truths, pl.Series]:
        """Which rows of both are the same, and how often rows that are there now were corrected."""
        pairs = (
            was.select(EVENT)
            .with_row_index("was")
            .join(now.select(EVENT).with_row_index("now"), on=EVENT)
        )
        old, new = was[pairs["was"]], now[pairs["now"]]
        columns = self.step.schema.names
        differs = differing(old, new, columns)
        numbers = pairs.select("was", "now").filter(~differs)
        same_was, same_now = np.zeros(was.height, np.bool_), np.zeros(now.height, np.bool_)
        same_was[numbers["was"]], same_now[numbers["now"]] = True, True
        revision = np.zeros(now.height, np.int64)
        revision[pairs["now"]] = (old[REVISION] + differs.cast(pl.Int64)).to_numpy()
        return same_was, same_now, pl.Series(REVISION, revision)

    def _keep(
        self, known: pl.DataFrame, standing: pl.DataFrame, gone: pl.DataFrame, came: pl.DataFrame
    ) -> None:
        """The rows of keys of which something has changed. What is kept of a key never ends before
        what was kept of it earlier, which would be found again."""
        changed = pl.concat([gone, came]).select(self.key).unique()
        if not changed.height:
            self.kept.append(None, self.batch.after)
            return
        standing = standing.join(changed, on=self.key, how="semi", nulls_equal=True)
        marks = gone.join(standing, on=self.key, how="anti", nulls_equal=True)
        marks = marks.unique(self.key, maintain_order=True).with_columns(pl.lit(True).alias(DEAD))
        until = known.group_by(self.key).agg(pl.col(UNTIL).max())
        rows = pl.concat([standing, marks]).drop(UNTIL)
        rows = rows.join(until, on=self.key, nulls_equal=True).select(standing.columns)
        rows = rows.filter(pl.col(UNTIL) > self.batch.after)
        self.kept.append(rows.sort(ORDER), self.batch.after)
