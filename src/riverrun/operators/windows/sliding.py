"""Sliding windows: for each row, what the rows of its key up to it amount to.

State is the rows themselves, in buckets of time, for as long as they can be part of a window that
is still to come or can be corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.arguments import checked
from riverrun.columns import EVENT, PLACE
from riverrun.durations import END, Duration
from riverrun.errors import caller
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.changes import begins, differing
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Result,
    StepState,
    split_late,
)
from riverrun.kernels.positions import event_name
from riverrun.kernels.state import SegmentList, between
from riverrun.operators.aggregate import Aggregate, StandingWindows
from riverrun.operators.windows import entry
from riverrun.operators.windows.grid import BOUNDS, RowWindow, length
from riverrun.schema import Column, Schema

AT = pl.col("__at")
BUCKETS = 4
"""Of a window's size: rows are kept and looked up by these."""


@dataclass(frozen=True)
class Sliding(RowWindow):
    kind = "sliding"

    def columns(self, rows: Schema, keys: tuple[str, ...]) -> tuple[Column, ...]:
        return (*rows.visible.columns, *BOUNDS, Column(EVENT, "VARCHAR"))

    def key(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return (EVENT,)

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        return Entry(entry.singles(step, rows, row=entry.packed_row(step), placed=True))

    def last_complete(self, instant: int) -> int:
        """Rows up to this time have been emitted: those at the clock may still get company."""
        return instant - 1

    def emitted(self, instant: int) -> int:
        """Rows are kept by the beginning of their bucket."""
        return instant - self.bucket

    @property
    def bucket(self) -> int:
        return max(self.size // BUCKETS, 1)

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        return _advance(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return _standing


@checked
def sliding(size: Duration) -> Sliding:
    """For each row, the rows of its key within this time up to it: `sliding("5 minutes")`."""
    return Sliding(length("a window", size, caller()))


Step = Aggregate[Sliding]


def _advance(step: Step, state: StepState, batch: Batch) -> Result:
    result = Result()
    rows = state.rows(within_key=None)
    new = None
    if batch.rows is not None:
        late = step.last_closed(batch.before)
        timely, result.late = split_late(batch.rows, late, step.as_entered)
        if timely.height:
            new = _in_buckets(step, timely)
            result.changes += _corrected(step, state, new, batch)
    result.changes += _fire(step, rows, new, batch)
    ended = batch.after - step.updatable - step.window.size - step.window.bucket
    rows.append(None if new is None else between(new, ended, END), ended)
    state.rows("revisions", PLACE).append(None, batch.after - step.updatable - step.window.bucket)
    return result


def _standing(step: Step, state: StepState, clock: int) -> pl.DataFrame | None:
    """Rows that may still be corrected, with what those before them amount to."""
    closed = step.last_closed(clock)
    kept = state.rows(within_key=None).standing(closed - step.window.size - step.window.bucket)
    if kept is None:
        return None
    rows = _rolled(step, kept).filter(closed < AT)
    return _changes(step, rows.with_columns(__revision=pl.lit(0, pl.Int64)), 1)


def _in_buckets(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    time = pl.col("__time")
    return (
        rows.with_columns(__at=time, __slot=time - time % step.window.bucket)
        .drop("__revision", "__time")
        .sort("__slot", "__hash")
    )


def _between(
    step: Step, rows: SegmentList, low: int, high: int, keys: pl.DataFrame
) -> list[pl.DataFrame]:
    """Rows of state with low < time <= high, of keys among those given."""
    parts = rows.between(low - step.window.bucket, high)
    hashes = keys["__hash"].unique().implode()
    wanted = (low < AT) & (high >= AT) & pl.col("__hash").is_in(hashes)
    found = (part.filter(wanted) for part in parts)
    return [part for part in found if part.height]


def _fire(
    step: Step, rows: SegmentList, new: pl.DataFrame | None, batch: Batch
) -> list[pl.DataFrame]:
    """The rows whose time passes between the two clocks."""
    low, high = step.last_emitted(batch.before), step.last_emitted(batch.after)
    if high <= low:
        return []
    passing = [
        part.filter((low < AT) & (high >= AT))
        for part in [*rows.between(low - step.window.bucket, high), *([] if new is None else [new])]
    ]
    passing = [part for part in passing if part.height]
    if not passing:
        return []
    due = pl.concat(passing, how="diagonal")
    context = _between(step, rows, low - step.window.size, low, due)
    if new is not None:
        before = new.filter((low - step.window.size < AT) & (low >= AT))
        context += [before] if before.height else []
    rolled = _rolled(step, pl.concat([due, *context], how="diagonal"))
    shown = rolled.filter(low < AT).with_columns(__revision=pl.lit(0, pl.Int64))
    return [_changes(step, shown, 1)]


def _corrected(step: Step, state: StepState, new: pl.DataFrame, batch: Batch) -> list[pl.DataFrame]:
    """New rows at times that have been emitted, and the rows after them that they change."""
    emitted = step.last_emitted(batch.before)
    stragglers = new.filter(emitted >= AT)
    if not stragglers.height:
        return []
    size = step.window.size
    first, last = stragglers.select(AT.min().alias("a"), AT.max().alias("b")).row(0)
    old = _between(step, state.rows(), first - size, min(last + size, emitted), stragglers)
    mark = pl.lit(True).alias("__new")
    rows = pl.concat([*old, stragglers.with_columns(mark)], how="diagonal")
    now = _rolled(step, rows.with_columns(pl.col("__new").fill_null(False)))
    own = now.filter("__new").with_columns(__revision=pl.lit(0, pl.Int64))
    changes = [_changes(step, own, 1)]
    if old:
        changes += _taken_back(step, state, _rolled(step, pl.concat(old)), now)
    return changes


def _taken_back(
    step: Step, state: StepState, was: pl.DataFrame, now: pl.DataFrame
) -> list[pl.DataFrame]:
    """The changes of old rows that have new ones in their window."""
    place = ["__hash", *step.keys, *PLACE]
    affected = now.filter(~pl.col("__new") & pl.col("__any_new"))
    was = affected.select(place).join(
        was, on=place, how="left", nulls_equal=True, maintain_order="left"
    )
    columns = step.results(AT - step.window.size, AT)
    changed = differing(was.select(columns), affected.select(columns))
    was, affected = was.filter(changed), affected.filter(changed)
    if not was.height:
        return []
    revisions = state.rows("revisions", PLACE)
    noted = revisions.lookup(was)
    if noted is not None:
        noted = noted.drop("__slot")
        was = was.join(noted, on=place, how="left", nulls_equal=True, maintain_order="left")
    else:
        was = was.with_columns(__revision=pl.lit(0, pl.Int64))
    was = was.with_columns(pl.col("__revision").fill_null(0))
    affected = affected.with_columns(was["__revision"] + 1)
    bumped = affected.select("__slot", *place, "__revision")
    revisions.append(bumped.sort("__slot", "__hash"), -END)
    return [_changes(step, was, -1), _changes(step, affected, 1)]


def _rolled(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    """Each row with the parts of all rows of its key within the window's size up to its time."""
    key = ["__hash", *step.keys]
    rows = rows.sort(*key, *PLACE)
    rows = rows.with_columns(__key=begins(key).cum_sum())
    marked = [pl.col("__new").any().alias("__any_new")] if "__new" in rows.columns else []
    rolled = rows.rolling(
        "__at", period=f"{step.window.size}i", group_by="__key", closed="right"
    ).agg(*merged(step.aggregations), *marked)
    parts = settled(rolled, step.aggregations).drop("__key", "__at")
    return rows.drop(name for name in parts.columns if name in rows.columns).hstack(parts)


def _changes(step: Step, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    columns = [name for name in rows["__row"].struct.fields if name not in PLACE]
    return rows.select(
        *(pl.col("__row").struct.field(name) for name in columns),
        *step.window.bounds(AT - step.window.size, AT),
        event_name().alias(EVENT),
        *step.results(AT - step.window.size, AT),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )
