"""The kernel of deduplication: of the rows of a key within a period, the first one passes."""

from __future__ import annotations

import polars as pl

from riverrun.kernels.steps import Batch, Result, StepState, split_late
from riverrun.program import Deduplicating

PLACE = ("__at", "__pos", "__sub")


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
    # a row in time may be a period behind, the one before it another, and its bucket a third
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
    known: dict[tuple[object, ...], list[int]] = {}
    if before is not None:
        for *key, time in before.select(*step.keys, "__time").iter_rows():
            known.setdefault(tuple(key), []).append(time)
    passes = []
    for *key, time in rows.select(*step.keys, "__window").iter_rows():
        times = known.setdefault(tuple(key), [])
        free = all(abs(time - other) >= step.within for other in times)
        passes.append(free)
        if free:
            times.append(time)
    return pl.Series(passes, dtype=pl.Boolean)
