"""Deduplication: of the rows of a key within a period, the first one passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import PLACE
from riverrun.durations import BEGINNING, Duration, duration_text, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels.changes import begins
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
    split_late,
)
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.plan.building import checked_policy, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import passed_on


@dataclass(frozen=True, kw_only=True)
class Deduplicate(PlainOperator):
    within: int
    in_order: bool
    """Whether rows wait until the clock has passed them, so that the first is so by its time."""
    key: tuple[str, ...]
    """That rows are written with."""

    kind = "deduplicate"
    takes = "facts"
    can_be_late = True

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.key)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_facts(self.schema.names, rows)

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        order = ", in order of time" if self.in_order else ""
        return Words.of(("keeps", f"the first row within {duration_text(self.within)}{order}"))

    def frozen(self) -> dict[str, Any]:
        return {"within": self.within, "in order": self.in_order}

    def last_closed(self, clock: int) -> int:
        return clock - 1 if self.in_order else clock - self.within

    @property
    def holds(self) -> bool:
        return self.in_order

    def advance(self, state: StepState, batch: Batch) -> Result:
        """A row passes if none of its key less than the period away has passed before it."""
        result = Result()
        passed = state.rows(within_key=None)
        fresh, rows = None, batch.rows
        if rows is not None:
            closed = self.last_closed(batch.before)
            rows, result.late = split_late(rows, closed, _as_entered)
        if self.in_order:
            rows = _released(state.rows("waiting", within_key=None), rows, batch)
            result.waiting = state.rows("waiting").last_time() >= batch.after
        if rows is not None and rows.height:
            rows = rows.sort(PLACE)
            first = rows.filter(_passes(self, passed.lookup(_near(self, rows)), rows))
            if first.height:
                result.streams[""] = [_as_entered(first)]
                bucket = _bucket(self, pl.col("__time")).alias("__slot")
                fresh = first.select(bucket, "__hash", *self.keys, "__time")
                fresh = fresh.sort("__slot", "__hash")
        # a row in time may be near to one that is almost two periods behind the clock
        passed.append(fresh, batch.after - 3 * self.within)
        return result


def deduplicate(
    rows: Node,
    columns: tuple[str, ...],
    *,
    within: Duration,
    in_order: bool,
    name: str | None,
    on_error: OnError | None,
    at: Location,
) -> Step:
    named = f"once_by_{'_'.join(columns)}"
    fields = step_fields("deduplicate", rows, columns, name, named=named, at=at)
    period = microseconds(within, at)
    if period <= 0:
        raise ProgramError("deduplicate needs a period above zero", where=at, got=repr(within))
    does = Deduplicate(
        **fields,
        schema=rows.schema.visible,
        on_error=checked_policy(on_error, rows, at),
        within=period,
        in_order=in_order,
        key=passed_on(rows, rows.schema.visible),
    )
    return Step((rows,), does)


def _as_entered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop("__time", "__hash")


def _released(waiting: SegmentList, rows: pl.DataFrame | None, batch: Batch) -> pl.DataFrame | None:
    """Rows that the clock has passed; the others wait."""
    high = batch.after - 1
    due = waiting.due(max(batch.before - 1, BEGINNING), high)
    parts = [] if due is None else [due.drop("__slot", "__until")]
    held = None
    if rows is not None and rows.height:
        passed = pl.col("__time") <= high
        parts.append(rows.filter(passed))
        kept = rows.filter(~passed)
        held = kept.with_columns(pl.lit(0, pl.Int64).alias("__slot"), __until=pl.col("__time"))
        held = held.sort("__slot", "__hash")
    waiting.append(held, high)
    return pl.concat([part.select(parts[0].columns) for part in parts]) if parts else None


def _bucket(step: Deduplicate, time: pl.Expr) -> pl.Expr:
    return time - time % step.within


def _near(step: Deduplicate, rows: pl.DataFrame) -> pl.DataFrame:
    """The buckets in which rows less than the period away may be."""
    bucket = _bucket(step, pl.col("__time")).alias("__slot")
    keys = rows.select(bucket, "__hash", *step.keys).unique()
    slot = pl.col("__slot")
    return pl.concat([keys.with_columns(slot + step.within * n) for n in (-1, 0, 1)]).unique()


def _passes(step: Deduplicate, before: pl.DataFrame | None, rows: pl.DataFrame) -> pl.Series:
    """Whether each row passes; rows are in order of time."""
    key = ["__hash", *step.keys]
    rows = rows.select("__time", *key).with_row_index("__number")
    free = (
        rows
        if before is None
        else rows.join(_too_near(step, before, rows), on="__number", how="anti")
    )
    free = free.sort(*key, "__number")
    keys = free.select(begins(key).cum_sum()).to_series().to_numpy()
    times, numbers = free["__time"].to_numpy(), free["__number"].to_numpy()
    passes = np.zeros(rows.height, np.bool_)
    while len(times):
        # the first of each key that is left passes; those less than the period after it do not
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        passes[numbers[first]] = True
        since = times - np.repeat(times[first], np.diff(first, append=len(times)))
        left = since >= step.within
        keys, times, numbers = keys[left], times[left], numbers[left]
    return pl.Series(passes)


def _too_near(step: Deduplicate, before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The numbers of rows less than the period away from one that has passed."""
    key = ["__hash", *step.keys]
    pairs = rows.join(before.drop("__slot"), on=key, nulls_equal=True, suffix="_passed")
    distance = (pl.col("__time") - pl.col("__time_passed")).abs()
    return pairs.filter(distance < step.within).select("__number")
