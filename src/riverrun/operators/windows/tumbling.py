"""Windows of one size, side by side.

Rows of a key and window are one row of state, with the revision of what was emitted of it. The same
kernel serves every window whose slot is its beginning and that tells its `end`; also the one that
never ends, and the changes of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.arguments import checked
from riverrun.durations import END, Duration, duration_text
from riverrun.errors import caller
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.changes import differing
from riverrun.kernels.operator import Batch, Result, StepState, split_late
from riverrun.kernels.state import SegmentList, between
from riverrun.operators.aggregate import Aggregate, StandingWindows, without_row
from riverrun.operators.windows import panes
from riverrun.operators.windows.grid import Grid, alignment, length


@dataclass(frozen=True)
class Tumbling(Grid):
    kind = "tumbling"

    @property
    def suffix(self) -> str:
        return f"_per_{duration_text(self.size)}".replace(" ", "_")

    def compared(self) -> int | None:
        return self.hop

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        # with panes, earlier windows stay at hand
        kernel = panes.advance if panes.periods(step) else advance
        return kernel(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return _standing


@checked
def tumbling(
    size: Duration, *, offset: Duration = "0 seconds", timezone: str | None = None
) -> Tumbling:
    """Windows of one size, side by side: `tumbling("1 minute")`.

    They begin at multiples of the size since 1970 (UTC), weeks on Mondays; `offset` moves them.
    With a `timezone` the size is in whole days, and a day is a local one, of 23 or 25 hours when
    the clocks change.
    """
    at = caller()
    found = length("a window", size, at)
    return Tumbling(found, found, alignment(found, offset, timezone, at), timezone)


def _standing(step: Aggregate[Any], state: StepState, clock: int) -> pl.DataFrame | None:
    return (panes.standing if panes.periods(step) else standing)(step, state, clock)


def standing(step: Aggregate[Any], state: StepState, clock: int) -> pl.DataFrame | None:
    """What `advance` keeps, as results."""
    rows = state.rows().standing(step.last_closed(clock))
    return None if rows is None else _changes(step, rows, 1)


def advance(step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
    result = Result()
    rows = state.rows()
    touched = None
    if batch.rows is not None:
        closed = step.last_closed(batch.before)
        parts, result.late = split_late(batch.rows, closed, step.as_entered, by="__slot")
        touched = _merge(step, rows, without_row(parts), batch.before, result)
    result.changes += _fire(step, rows, touched, batch)
    closed = step.last_closed(batch.after)
    rows.append(None if touched is None else between(touched, closed, END), closed)
    return result


def _merge(
    step: Aggregate[Any], state: SegmentList, parts: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame | None:
    """Merges parts with state; what has been emitted before is corrected. Sorted by window."""
    if not parts.height:
        return None
    old = state.lookup(parts)
    if old is not None and step.signed:
        old = old.drop("__dead")
    rows = parts if old is None else pl.concat([old, parts[old.columns]])
    touched = rows.group_by(["__slot", "__hash", *step.keys], maintain_order=old is not None).agg(
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
    emitted = new["__slot"].to_numpy() <= step.last_emitted(before)
    if step.signed:
        emitted &= new["__n"].to_numpy() > 0
    if emitted.any():
        shown = new if emitted.all() else new.filter(pl.Series(emitted))
        result.changes.append(_changes(step, shown, 1))
    if step.signed:
        touched = touched.with_columns(__dead=pl.col("__n") <= 0)
    return touched.sort("__slot", "__hash")


def _corrected(
    step: Aggregate[Any], old: pl.DataFrame, touched: pl.DataFrame, before: int, result: Result
) -> pl.DataFrame:
    """Emits the change of rows that were emitted already, and counts their revision up."""
    current = touched.slice(0, old.height)
    was, now = _changes(step, old, -1), _changes(step, current, 1)
    changed = differing(was, now, [each.name for each in step.aggregations])
    standing = None
    if step.signed:
        standing = current["__n"] > 0
        changed |= ~standing
    changed &= old["__slot"] <= step.last_emitted(before)
    revision = current["__revision"] + changed.cast(pl.Int64)
    if changed.any():
        shown = changed if standing is None else changed & standing
        result.changes.append(_those(was, changed))
        result.changes.append(_those(_revised(now, revision), shown))
    return pl.concat([_revised(current, revision), touched.slice(old.height)])


def _revised(rows: pl.DataFrame, revision: pl.Series) -> pl.DataFrame:
    rows = rows.clone()
    return rows.replace_column(rows.get_column_index("__revision"), revision)


def _those(rows: pl.DataFrame, chosen: pl.Series) -> pl.DataFrame:
    """Most often all of them, and a query costs as much for few rows as for many."""
    return rows if chosen.all() else rows.filter(chosen)


def _fire(
    step: Aggregate[Any], state: SegmentList, touched: pl.DataFrame | None, batch: Batch
) -> list[pl.DataFrame]:
    """The rows of windows that become ready (or, for "final", close) between the two clocks."""
    low, high = step.last_emitted(batch.before), step.last_emitted(batch.after)
    if high <= low:
        return []
    parts = state.between(low, high)
    if touched is not None:
        now = between(touched, low, high)
        parts += [now] if now.height else []
    return [_changes(step, state.newest(parts), 1)] if parts else []


def _changes(step: Aggregate[Any], rows: pl.DataFrame, op: int) -> pl.DataFrame:
    start = pl.col("__slot")
    end = step.window.end(start)
    return rows.select(
        *(pl.col(key) for key in step.keys),
        *step.window.bounds(start, end),
        *step.results(start, end),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )
