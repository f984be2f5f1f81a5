"""Rows in the order of event time: those ahead of the clock wait until it has passed them."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.operator import Batch, Result, split_late
from riverrun.kernels.state import SegmentList


class Ordered(Protocol):
    """What a step says of the rows that enter it."""

    @property
    def kept(self) -> tuple[str, ...]: ...
    def last_closed(self, clock: int) -> int: ...
    def as_entered(self, rows: pl.DataFrame) -> pl.DataFrame: ...


def released(
    step: Ordered, batch: Batch, waiting: SegmentList, result: Result
) -> list[pl.DataFrame]:
    """The rows that the clock has passed with this batch. Those that came too late are told."""
    before, after = batch.before, batch.after
    parts = [part.drop("__slot") for part in waiting.between(before - 1, after - 1)]
    ahead = None
    if batch.rows is not None:
        rows, result.late = split_late(batch.rows, step.last_closed(before), step.as_entered)
        rows = rows.select(step.kept)
        passed = rows[TIME] < after
        if not passed.all():
            ahead = rows.filter(~passed).with_columns(__slot=pl.col(TIME))
            ahead, rows = ahead.sort("__slot", "__hash"), rows.filter(passed)
        parts.append(rows)
    waiting.append(ahead, after - 1)
    return [part for part in parts if part.height]
