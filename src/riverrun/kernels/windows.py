"""The kernel of windows that stand side by side, and of the one window that never ends.

Rows of a key and window are one row of state, with the revision of what was emitted of it.
"""

from __future__ import annotations

import polars as pl

from riverrun.durations import END
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.state import SegmentList, between
from riverrun.kernels.steps import (
    Batch,
    Result,
    StepState,
    bounds,
    differing,
    last_emitted,
    result_columns,
    split_late,
    without_row,
)
from riverrun.program import Aggregating


def advance(step: Aggregating, state: StepState, batch: Batch) -> Result:
    result = Result()
    rows = state.rows()
    touched = None
    if batch.rows is not None:
        parts, result.late = split_late(step, batch.rows, batch.before)
        touched = _merge(step, rows, without_row(parts), batch.before, result)
    result.changes += _fire(step, rows, touched, batch)
    closed = step.last_closed(batch.after)
    rows.append(None if touched is None else between(touched, closed, END), closed)
    return result


def _merge(
    step: Aggregating, state: SegmentList, parts: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame | None:
    """Merges parts with state; what has been emitted before is corrected. Sorted by window."""
    if not parts.height:
        return None
    old = state.lookup(parts)
    if old is not None and step.signed:
        old = old.drop("__dead")
    rows = parts if old is None else pl.concat([old, parts.select(old.columns)])
    touched = rows.group_by(["__window", "__hash", *step.keys], maintain_order=old is not None).agg(
        *merged(step.aggregations),
        pl.col("__revision").max(),
        *([pl.col("__n").sum()] if step.signed else []),
    )
    touched = settled(touched, step.aggregations)
    # groups keep the order of first appearance: the first ones are those that were in state
    known = 0 if old is None else old.height
    if old is not None:
        touched = _corrected(step, old, touched, before, result)
    new = touched.slice(known)
    emitted = new["__window"].to_numpy() <= last_emitted(step, before)
    if step.signed:
        emitted &= new["__n"].to_numpy() > 0
    if emitted.any():
        shown = new if emitted.all() else new.filter(pl.Series(emitted))
        result.changes.append(_changes(step, shown, 1))
    if step.signed:
        touched = touched.with_columns(__dead=pl.col("__n") <= 0)
    return touched.sort("__window", "__hash")


def _corrected(
    step: Aggregating, old: pl.DataFrame, touched: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame:
    """Emits the change of rows that were emitted already, and counts their revision up."""
    current = touched.slice(0, old.height)
    changed = differing(_results(step, old), _results(step, current))
    standing = pl.Series([True]).new_from_index(0, old.height)
    if step.signed:
        standing = current["__n"] > 0
        changed |= ~standing
    changed &= old["__window"] <= last_emitted(step, before)
    bumped = current.with_columns(__revision=pl.col("__revision") + changed.cast(pl.Int64))
    if changed.any():
        result.changes.append(_changes(step, old.filter(changed), -1))
        result.changes.append(_changes(step, bumped.filter(changed & standing), 1))
    return pl.concat([bumped, touched.slice(old.height)])


def _fire(
    step: Aggregating, state: SegmentList, touched: pl.DataFrame | None, batch: Batch
) -> list[pl.DataFrame]:
    """The rows of windows that become ready (or, for "final", close) between the two clocks."""
    low, high = last_emitted(step, batch.before), last_emitted(step, batch.after)
    if high <= low:
        return []
    parts = state.between(low, high)
    if touched is not None:
        now = between(touched, low, high)
        parts += [now] if now.height else []
    return [_changes(step, state.newest(parts), 1)] if parts else []


def _results(step: Aggregating, rows: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("__window")
    return rows.select(result_columns(step, start, start + step.window.size))


def _changes(step: Aggregating, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    start = pl.col("__window")
    end = start + step.window.size
    return rows.select(
        *(pl.col(key) for key in step.keys),
        *bounds(step, start, end),
        *result_columns(step, start, end),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )
