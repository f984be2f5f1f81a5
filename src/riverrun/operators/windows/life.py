"""The life of a group: from its first row on, for as long as the next one comes in time.

Rows less than `keep` apart belong to one life, as those of a session do; so what a group holds does
not depend on when it is looked after. When the clock has passed the end of a life, its result is
taken back, and the next row begins another. Of a group with two lives, since rows of the second
came before the clock had passed the first, the later one is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.durations import BEGINNING, END, duration_text
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.changes import begins, differing, net
from riverrun.kernels.ending import CHANGED, UNTIL, ends, not_before
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Result,
    StepState,
    split_late,
)
from riverrun.kernels.state import SegmentList
from riverrun.operators.aggregate import Aggregate, StandingWindows, without_row
from riverrun.operators.windows import entry
from riverrun.operators.windows.all_time import AllTime

START, TIME = pl.col("__start"), "epoch_us(__at)"


@dataclass(frozen=True)
class Life(AllTime):
    keep: int

    kind = "life"

    @property
    def kept(self) -> str:
        return f"for {duration_text(self.keep)} after its last row"

    @property
    def late(self) -> bool:
        return True

    @property
    def ends(self) -> bool:
        return True

    def frozen(self) -> dict[str, Any]:
        return {}

    def settings(self) -> dict[str, Any]:
        return {"keep": self.keep}

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        """Rows of one piece of time as long as `keep` belong to one life, wherever it begins."""
        slot = f"{TIME} - ({TIME} % {self.keep} + {self.keep}) % {self.keep}"
        bounds = (f"min({TIME}) AS __start", f"max({TIME}) AS __changed")
        return Entry(
            entry.single_if_late(step, rows, slot, bounds),
            entry.combined(step, rows, slot, bounds),
        )

    def last_closed(self, instant: int) -> int:
        return instant - self.keep

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Groups that were kept for ever have had a row at some time; the next one tells."""
        if "__start" not in rows.columns:
            rows = rows.with_columns(
                __start=pl.lit(BEGINNING, pl.Int64),
                __changed=pl.lit(None, pl.Int64),
                __dead=pl.lit(False),
            )
        return rows.with_columns(not_before(rows, ends(self.keep))).select(
            *(name for name in rows.columns if name not in BOUNDS), *BOUNDS
        )

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        return _advance(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return _standing


BOUNDS = ("__start", "__changed", "__until", "__dead")
Step = Aggregate[Life]


def _lives(state: StepState) -> SegmentList:
    return state.rows(within_key=("__start",))


def _standing(step: Step, state: StepState, clock: int) -> pl.DataFrame | None:
    rows = _lives(state).standing()
    if rows is None:
        return None
    return _shown(step, _going_on(rows, clock)).select(*step.keys, *_results(step))


def _going_on(rows: pl.DataFrame, clock: int) -> pl.DataFrame:
    return rows.filter(clock < UNTIL) if clock < END else rows


def _advance(step: Step, state: StepState, batch: Batch) -> Result:
    result, lives = Result(), _lives(state)
    rows = None
    if batch.rows is not None:
        closed = step.last_closed(batch.before)
        rows, result.late = split_late(batch.rows, closed, step.as_entered, by="__changed")
    groups = _touched(step, lives, rows, batch)
    if groups is None:
        return result
    old = lives.lookup(groups)
    was = None if old is None else _shown(step, _going_on(old, batch.before))
    if rows is not None and rows.height:
        joined = _corrected(step, _joined(step, old, without_row(rows)), was)
        _keep(step, lives, old, joined)
    new = lives.lookup(groups)
    now = None if new is None else _shown(step, _going_on(new, batch.after))
    parts = [_changes(step, each, op) for each, op in ((was, -1), (now, 1)) if each is not None]
    if parts:
        result.changes.append(net(pl.concat(parts), list(step.keys), step.schema.names))
    _forget(lives, new, batch.after)
    return result


def _touched(
    step: Step, lives: SegmentList, rows: pl.DataFrame | None, batch: Batch
) -> pl.DataFrame | None:
    """The groups that rows come to, and those of which a life ends."""
    wanted = [pl.lit(0, pl.Int64).alias("__slot"), "__hash", *step.keys]
    due = lives.due(batch.before, batch.after) if batch.before < batch.after < END else None
    parts = [each.select(wanted) for each in (rows, due) if each is not None and each.height]
    return pl.concat(parts).unique(maintain_order=True) if parts else None


def _joined(step: Step, old: pl.DataFrame | None, new: pl.DataFrame) -> pl.DataFrame:
    """The lives of new rows, and of all that belongs to them."""
    new = new.with_columns(pl.lit(0, pl.Int64).alias("__slot"), ends(step.window.keep))
    new = new.with_columns(__dead=pl.lit(False))
    parts = [new] if old is None else [old, new.select(old.columns)]
    group = ["__hash", *step.keys]
    rows = pl.concat(parts).sort(*group, "__start")
    reached = UNTIL.cum_max().over(group).shift()
    rows = rows.with_columns(__life=(begins(group) | (reached <= START)).cum_sum())
    joined = rows.group_by("__life", maintain_order=True).agg(
        *(pl.col(name).first() for name in ("__slot", *group)),
        *merged(step.aggregations),
        pl.col("__revision").max(),
        START.min(),
        CHANGED.max(),
    )
    joined = settled(joined, step.aggregations).drop("__life")
    return joined.with_columns(ends(step.window.keep), __dead=pl.lit(False))


def _corrected(step: Step, joined: pl.DataFrame, was: pl.DataFrame | None) -> pl.DataFrame:
    """What takes the place of a row that is shown has the next revision."""
    if was is None:
        return joined
    group = ["__hash", *step.keys]
    shown = joined.select(group).join(
        was, on=group, how="left", nulls_equal=True, maintain_order="left"
    )
    differs = differing(shown.select(_results(step)), joined.select(_results(step)))
    revision = (shown["__revision"] + differs.cast(pl.Int64)).fill_null(0)
    return joined.with_columns(revision.alias("__revision"))


def _keep(step: Step, lives: SegmentList, old: pl.DataFrame | None, joined: pl.DataFrame) -> None:
    written = [joined]
    if old is not None:
        identity = ["__slot", "__hash", *step.keys, "__start"]
        gone = old.join(joined, on=identity, how="anti", nulls_equal=True)
        written.append(gone.with_columns(__dead=pl.lit(True)).select(joined.columns))
    lives.append(pl.concat(written).sort("__slot", "__hash"), BEGINNING)


def _forget(lives: SegmentList, rows: pl.DataFrame | None, clock: int) -> None:
    """Lives that are over."""
    if rows is None or clock >= END:
        return
    over = rows.filter(clock >= UNTIL)
    if over.height:
        lives.append(over.with_columns(__dead=pl.lit(True)).sort("__slot", "__hash"), BEGINNING)


def _shown(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    """The latest life of each group."""
    return rows.sort("__start").unique(["__hash", *step.keys], keep="last", maintain_order=True)


def _results(step: Step) -> list[pl.Expr]:
    return step.results(START, UNTIL)


def _changes(step: Step, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    return rows.select(*step.keys, *_results(step), pl.lit(op, pl.Int8).alias("__op"), "__revision")
