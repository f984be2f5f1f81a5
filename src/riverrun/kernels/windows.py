"""The kernel of windowed aggregates: parts and a clock in; changes, late rows and new state out."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from riverrun.errors import JobError
from riverrun.event_time import BEGINNING, END
from riverrun.kernels.aggregates import merged, results, settled
from riverrun.kernels.state import SegmentList, between
from riverrun.program import Step


@dataclass
class Result:
    changes: list[pl.DataFrame]
    late: pl.DataFrame | None = None


def advance(
    step: Step, state: SegmentList, parts: pl.DataFrame | None, before: int, after: int
) -> Result:
    """Rows are judged by the clock as it stood `before` the batch; then windows fire `after` it."""
    result = Result([])
    touched = None
    if parts is not None:
        parts, result.late = _split_late(step, parts, before)
        touched = _merge(step, state, parts, before, result)
    result.changes += _fire(step, state, touched, before, after)
    closed = _last_closed(step, after)
    state.append(None if touched is None else between(touched, closed, END), closed)
    return result


def _last_closed(step: Step, clock: int) -> int:
    """The latest window that is closed at this clock."""
    return clock - step.size - step.updatable if step.size else BEGINNING


def _split_late(
    step: Step, parts: pl.DataFrame, clock: int
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Rows in time, and the late ones as they entered the step."""
    windows = parts["__window"].to_numpy()
    late = windows <= _last_closed(step, clock)
    if "__row" not in parts.columns:
        if late.any():
            raise JobError("rows are late that were read as if they could not be", where=step.name)
        return parts, None
    if not late.any():
        return parts.drop("__row"), None
    mask = pl.Series(late)
    return parts.filter(~mask).drop("__row"), parts.filter(mask)["__row"].struct.unnest()


def _merge(
    step: Step, state: SegmentList, parts: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame | None:
    """Merges parts with state, by window and hash; what has been emitted before is corrected."""
    if not parts.height:
        return None
    identity = ["__window", "__hash", *step.keys]
    old = state.lookup(parts)
    rows = parts if old is None else pl.concat([old, parts.select(old.columns)])
    touched = rows.group_by(identity, maintain_order=old is not None).agg(
        *merged(step.aggregations), pl.col("__revision").max()
    )
    touched = settled(touched, step.aggregations)
    # groups keep the order of first appearance: the first ones are those that were in state
    known = 0 if old is None else old.height
    if old is not None:
        touched = _corrected(step, old, touched, before, result)
    new = touched.slice(known)
    emitted = new["__window"].to_numpy() <= _last_emitted(step, before)
    if emitted.any():
        shown = new if emitted.all() else new.filter(pl.Series(emitted))
        result.changes.append(_changes(step, shown, 1))
    return touched.sort("__window", "__hash")


def _last_emitted(step: Step, clock: int) -> int:
    """The latest window whose rows have been emitted at this clock."""
    match step.emit:
        case "changes":
            return END
        case "ready":
            return clock - step.size
        case "final":
            return _last_closed(step, clock)


def _corrected(
    step: Step, old: pl.DataFrame, touched: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame:
    """Emits the change of rows that were emitted already, and counts their revision up."""
    current = touched.slice(0, old.height)
    was, now = _results(step, old), _results(step, current)
    differs = pl.Series([False]).new_from_index(0, old.height)
    for name in was.columns:
        differs = differs | was[name].ne_missing(now[name])
    changed = differs & (old["__window"] <= _last_emitted(step, before))
    bumped = current.with_columns(__revision=pl.col("__revision") + changed.cast(pl.Int64))
    if changed.any():
        result.changes.append(_changes(step, old.filter(changed), -1))
        result.changes.append(_changes(step, bumped.filter(changed), 1))
    return pl.concat([bumped, touched.slice(old.height)])


def _fire(
    step: Step, state: SegmentList, touched: pl.DataFrame | None, before: int, after: int
) -> list[pl.DataFrame]:
    """The rows of windows that become ready (or, for "final", close) between the two clocks."""
    if step.emit == "changes" or after <= before:
        return []
    low, high = _last_emitted(step, before), _last_emitted(step, after)
    parts = state.between(low, high)
    if touched is not None:
        now = between(touched, low, high)
        parts += [now] if now.height else []
    return [_changes(step, state.newest(parts), 1)] if parts else []


def _results(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(results(step.aggregations, _seconds(step)))


def _seconds(step: Step) -> pl.Expr | None:
    return pl.lit(step.size / 1_000_000) if step.size else None


def _changes(step: Step, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    window = pl.col("__window")
    bounds = [
        window.cast(pl.Datetime("us")).alias("window_start"),
        (window + step.size).cast(pl.Datetime("us")).alias("window_end"),
    ]
    return rows.select(
        *(pl.col(key) for key in step.keys),
        *(bounds if step.size else []),
        *results(step.aggregations, _seconds(step)),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )
