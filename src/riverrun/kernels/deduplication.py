"""The kernel of deduplication: of the rows of a key within a period, the first one passes."""

from __future__ import annotations

import numpy as np
import polars as pl

from riverrun.kernels.steps import PLACE, Batch, Result, StepState, begins, split_late
from riverrun.program import Deduplicating


def advance(step: Deduplicating, state: StepState, batch: Batch) -> Result:
    """A row passes if none of its key less than the period away has passed before it."""
    result = Result()
    passed = state.rows(within_key=None)
    fresh = None
    if batch.rows is not None:
        rows, result.late = split_late(step, batch.rows, batch.before)
        rows = rows.sort(PLACE)
        first = rows.filter(_passes(step, passed.lookup(_near(step, rows)), rows))
        if first.height:
            result.streams[""] = [first.drop("__window", "__hash")]
            bucket = _bucket(step, pl.col("__window"))
            fresh = first.select(
                bucket, "__hash", *step.keys, pl.col("__window").alias("__time")
            ).sort("__window", "__hash")
    # a row in time may be near to one that is almost two periods behind the clock
    passed.append(fresh, batch.after - 3 * step.within)
    return result


def _bucket(step: Deduplicating, time: pl.Expr) -> pl.Expr:
    return time - time % step.within


def _near(step: Deduplicating, rows: pl.DataFrame) -> pl.DataFrame:
    """The buckets in which rows less than the period away may be."""
    keys = rows.select(_bucket(step, pl.col("__window")), "__hash", *step.keys).unique()
    window = pl.col("__window")
    return pl.concat(
        [keys.with_columns(window + step.within * place) for place in (-1, 0, 1)]
    ).unique()


def _passes(step: Deduplicating, before: pl.DataFrame | None, rows: pl.DataFrame) -> pl.Series:
    """Whether each row passes; rows are in order of time."""
    key = ["__hash", *step.keys]
    rows = rows.select("__window", *key).with_row_index("__number")
    free = (
        rows
        if before is None
        else rows.join(_too_near(step, before, rows), on="__number", how="anti")
    )
    free = free.sort(*key, "__number")
    keys = free.select(begins(key).cum_sum()).to_series().to_numpy()
    times, numbers = free["__window"].to_numpy(), free["__number"].to_numpy()
    passes = np.zeros(rows.height, np.bool_)
    while len(times):
        # the first of each key that is left passes; those less than the period after it do not
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        passes[numbers[first]] = True
        since = times - np.repeat(times[first], np.diff(first, append=len(times)))
        left = since >= step.within
        keys, times, numbers = keys[left], times[left], numbers[left]
    return pl.Series(passes)


def _too_near(step: Deduplicating, before: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The numbers of rows less than the period away from one that has passed."""
    key = ["__hash", *step.keys]
    pairs = rows.join(before.drop("__window"), on=key, nulls_equal=True)
    distance = (pl.col("__window") - pl.col("__time")).abs()
    return pairs.filter(distance < step.within).select("__number")
