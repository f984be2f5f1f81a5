"""The kernel of windows that overlap, and of comparisons with an earlier window.

State is panes: the pieces of time that windows are built from, one row per key and pane, however
many windows share it. Windows are put together when they are emitted. How often a window was
corrected is kept only for those that were.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from riverrun.durations import BEGINNING, END
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.changes import differing
from riverrun.kernels.operator import Batch, Result, StepState, split_late
from riverrun.kernels.parts import compared_names
from riverrun.kernels.state import SegmentList
from riverrun.operators.aggregate import Aggregate, without_row
from riverrun.operators.windows.grid import Grid

SCAN_BEYOND = 1.0
"""Panes are looked up one by one, unless they are this many times as many as there are in state."""

ZERO = ("approx_distinct", "count", "distinct", "rate", "row_rate", "sum")
"""Aggregates that are 0 of no rows; others are null."""

Panes = Callable[[int, int], pl.DataFrame]
"""The panes of the windows with low < window <= high, and perhaps others."""


Step = Aggregate[Grid]


def advance(step: Step, state: StepState, batch: Batch) -> Result:
    result = Result()
    panes = state.rows()
    touched = None
    if batch.rows is not None:
        late = step.last_closed(batch.before)
        parts, result.late = split_late(batch.rows, late, step.as_entered, by="__slot")
        if parts.height:
            touched = _merged(step, panes, without_row(parts))
            result.changes += _corrected(step, state, touched, batch)
    result.changes += _fire(step, panes, touched, batch)
    closed = step.window.last_complete(batch.after - step.updatable)
    panes.append(touched, closed - _reach_back(step))
    state.rows("revisions").append(None, closed)
    if _falling(step):
        # what was there is missed for as long as it is compared with
        result.waiting = panes.last_time() + _reach_back(step) > step.done(batch.after)
    return result


def standing(step: Step, state: StepState, clock: int) -> pl.DataFrame | None:
    """The windows that are not closed, of the panes that `advance` keeps."""
    closed = step.window.last_complete(clock - step.updatable)
    panes = state.rows().standing(closed - _reach_back(step))
    if panes is None:
        return None
    shown = _windows(step, lambda low, high: panes, closed, END)
    return _changes(step, shown.with_columns(__revision=pl.lit(0, pl.Int64)), 1)


def _merged(step: Step, panes: SegmentList, parts: pl.DataFrame) -> pl.DataFrame:
    """The panes that the parts fall into, as they are now."""
    old = panes.lookup(parts)
    rows = parts.drop("__revision")
    if old is not None:
        rows = pl.concat([old, rows.select(old.columns)])
    return _grouped(step, rows).sort("__slot", "__hash")


def _grouped(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    identity = ["__slot", "__hash", *step.keys]
    return settled(rows.group_by(identity).agg(*merged(step.aggregations)), step.aggregations)


def _corrected(
    step: Step, state: StepState, touched: pl.DataFrame, batch: Batch
) -> list[pl.DataFrame]:
    """The changes of windows that were emitted before, and that the touched panes are part of."""
    low = step.window.last_complete(batch.before - step.updatable)
    high = step.last_emitted(batch.before)
    identity = ["__slot", "__hash", *step.keys]
    windows = _affected(step, touched, low, high).select(identity).unique()
    if not windows.height:
        return []
    panes = state.rows()
    found = _panes_around(step, panes, windows)
    standing = touched.clear() if found is None else found
    was = _results(step, windows, standing)
    now = _results(step, windows, panes.newest([standing, touched.select(standing.columns)]))
    return _emitted(step, state, was, now)


def _affected(step: Step, touched: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """The windows with low < window <= high that show the touched panes."""
    own = _windows_of(step, touched, low, high)
    later = [
        _windows_of(step, touched, low - period, high - period).with_columns(
            __slot=pl.col("__slot") + period
        )
        for period in periods(step)
    ]
    return pl.concat([own, *later])


def _windows_of(step: Step, panes: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Every pane once for each window with low < window <= high that it is part of."""
    window = step.window
    pane = panes["__slot"].to_numpy()
    last = pane - (pane - window.offset) % window.hop
    first = last - (window.size - 1 - (pane - last)) // window.hop * window.hop
    low = max(low, BEGINNING // 2)
    lowest = window.floor(low, window.hop) + window.hop
    first = np.maximum(first, lowest)
    last = np.minimum(last, window.floor(min(high, END // 2), window.hop))
    count = np.maximum((last - first) // window.hop + 1, 0)
    rows = np.repeat(np.arange(panes.height), count)
    step_in = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    starts = np.repeat(first, count) + step_in * window.hop
    return panes[rows].with_columns(pl.Series("__slot", starts, pl.Int64))


def _panes_around(step: Step, panes: SegmentList, windows: pl.DataFrame) -> pl.DataFrame | None:
    """The panes in state that the windows, or those they are compared with, are built from."""
    size, pane = step.window.size, step.window.pane
    places = np.arange(0, size, pane)
    every = np.concatenate([places - period for period in (0, *periods(step))])
    kept = sum(segment.rows.height for segment in panes.segments)
    if windows.height * len(every) > SCAN_BEYOND * kept:
        starts = windows["__slot"].to_numpy()
        held = panes.between(int(starts.min()) - _reach_back(step) - 1, int(starts.max()) + size)
        hashes = windows["__hash"].unique().implode()
        ours = [part.filter(pl.col("__hash").is_in(hashes)) for part in held]
        return panes.newest(ours) if ours else None
    rows = np.repeat(np.arange(windows.height), len(every))
    starts = windows["__slot"].to_numpy()[rows] + np.tile(every, windows.height)
    return panes.lookup(windows[rows].with_columns(pl.Series("__slot", starts, pl.Int64)))


def _results(step: Step, windows: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
    """What the panes say of each window, in the order of the windows; null where there is none."""
    found = _windows(step, lambda low, high: panes, BEGINNING // 2, END // 2, falls=True)
    return windows.join(
        found.with_columns(__there=pl.lit(True)),
        on=["__slot", "__hash", *step.keys],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


def _windows(step: Step, panes: Panes, low: int, high: int, *, falls: bool = False) -> pl.DataFrame:
    """The results of the windows with low < window <= high that have rows; with `falls` also of
    those that are missed."""
    shown = _plain_results(step, panes, low, high)
    earlier = {
        period: _plain_results(step, panes, low - period, high - period).with_columns(
            __slot=pl.col("__slot") + period
        )
        for period in periods(step)
    }
    identity = ["__slot", "__hash", *step.keys]
    for period in _falling(step) if falls else ():
        missed = earlier[period].join(shown, on=identity, how="anti", nulls_equal=True)
        shown = pl.concat([shown, missed.select(identity).with_columns(_of_nothing(step, shown))])
    for each in step.aggregations:
        if each.compared_to:
            shown = _compared(shown, earlier[each.compared_to], each.name, identity)
    return shown


def _of_nothing(step: Step, like: pl.DataFrame) -> list[pl.Expr]:
    """The results of no rows."""
    zeros = {each.name for each in step.aggregations if each.kind in ZERO}
    names = [name for name in like.columns if name not in ("__slot", "__hash", *step.keys)]
    return [pl.lit(0 if n in zeros else None).cast(like.schema[n]).alias(n) for n in names]


def _falling(step: Step) -> tuple[int, ...]:
    """The periods of comparisons that tell what is missing."""
    return tuple(sorted({each.compared_to for each in step.aggregations if each.falls}))


def _plain_results(step: Step, panes: Panes, low: int, high: int) -> pl.DataFrame:
    start = pl.col("__slot")
    grouped = _grouped(step, _windows_of(step, panes(low, high), low, high))
    columns = step.results(start, start + step.window.size)
    return grouped.select("__slot", "__hash", *step.keys, *columns)


def _compared(
    shown: pl.DataFrame, earlier: pl.DataFrame, name: str, identity: list[str]
) -> pl.DataFrame:
    """Adds the earlier value, the difference and the ratio."""
    earlier = earlier.select(*identity, pl.col(name).alias(f"{name}_earlier"))
    value, before = pl.col(name), pl.col(f"{name}_earlier")
    ratio = value.cast(pl.Float64) / before.cast(pl.Float64)
    return shown.join(earlier, on=identity, how="left", nulls_equal=True).with_columns(
        _difference(value, before, shown.schema[name]).alias(f"{name}_difference"),
        pl.when(before != 0).then(ratio).alias(f"{name}_ratio"),
    )


def _difference(value: pl.Expr, before: pl.Expr, type: pl.DataType) -> pl.Expr:
    """Null where 64 bits do not hold it."""
    if not type.is_integer():
        return value - before
    return (value.cast(pl.Int128) - before.cast(pl.Int128)).cast(pl.Int64, strict=False)


def _emitted(
    step: Step, state: StepState, was: pl.DataFrame, now: pl.DataFrame
) -> list[pl.DataFrame]:
    """The changes from what was to what is now, and their revisions noted."""
    names = _result_names(step)
    there_was = was["__there"].fill_null(False)
    there_is = now["__there"].fill_null(False)
    changed = (differing(was, now, names) | ~there_was) & there_is
    was, now = was.filter(changed & there_was), now.filter(changed)
    if not now.height:
        return []
    identity = ["__slot", "__hash", *step.keys]
    revisions = state.rows("revisions")
    noted = revisions.lookup(was)
    if noted is None:
        was = was.with_columns(__revision=pl.lit(0, pl.Int64))
    else:
        was = was.join(noted, on=identity, how="left", nulls_equal=True, maintain_order="left")
        was = was.with_columns(pl.col("__revision").fill_null(0))
    bumped = was.select(*identity, pl.col("__revision") + 1)
    if bumped.height:
        revisions.append(bumped.sort("__slot", "__hash"), BEGINNING)
    now = now.join(bumped, on=identity, how="left", nulls_equal=True, maintain_order="left")
    now = now.with_columns(pl.col("__revision").fill_null(0))
    return [_changes(step, rows, op) for rows, op in ((was, -1), (now, 1)) if rows.height]


def _fire(
    step: Step, panes: SegmentList, touched: pl.DataFrame | None, batch: Batch
) -> list[pl.DataFrame]:
    """The windows that become ready (or, for "final", close) between the two clocks."""
    low, high = step.last_emitted(batch.before), step.last_emitted(batch.after)
    if high <= low:
        return []

    def around(low: int, high: int) -> pl.DataFrame:
        parts = panes.between(low, high + step.window.size)
        if touched is not None:
            parts.append(touched.select(parts[0].columns) if parts else touched)
        return panes.newest(parts) if parts else empty

    if touched is None and not panes.segments:
        return []
    empty = (panes.segments[0].rows if touched is None else touched).clear()
    # after the end of the input nothing is missed
    shown = _windows(step, around, low, high, falls=batch.after < END)
    rows = shown.with_columns(__revision=pl.lit(0, pl.Int64))
    return [_changes(step, rows, 1)] if rows.height else []


def _changes(step: Step, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    start = pl.col("__slot")
    return rows.select(
        *(pl.col(key) for key in step.keys),
        *step.window.bounds(start, start + step.window.size),
        *(pl.col(name) for name in _result_names(step)),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )


def periods(step: Step) -> tuple[int, ...]:
    """How far back results are compared."""
    return tuple(sorted({each.compared_to for each in step.aggregations} - {0}))


def _reach_back(step: Step) -> int:
    return max(periods(step), default=0)


def _result_names(step: Step) -> list[str]:
    return [
        name
        for each in step.aggregations
        for name in (each.name, *(compared_names(each.name) if each.compared_to else ()))
    ]
