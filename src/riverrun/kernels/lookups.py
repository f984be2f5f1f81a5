"""The kernel of streams joined with a table as it stands: its changes first, then the rows."""

from __future__ import annotations

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.kernels.pairs import own_columns, side_key, with_nulls
from riverrun.kernels.state import SegmentList
from riverrun.kernels.steps import PLACE, Batch, Result, StepState
from riverrun.kernels.tables import latest
from riverrun.program import Joining


def advance(step: Joining, state: StepState, batch: Batch) -> Result:
    result, table = Result(), state.rows("right")
    if batch.right is not None:
        _keep(step, table, batch.right)
    if batch.rows is None:
        return result
    rows = batch.rows.with_columns(__window=pl.lit(0, pl.Int64))
    found = table.lookup(rows)
    if found is None:
        if step.keeps("left"):
            result.streams[""] = [with_nulls(step, "left", rows, *PLACE)]
        return result
    how = "left" if step.keeps("left") else "inner"
    found = found.drop("__window", "__dead")
    joined = rows.join(found, on=side_key(step), how=how, maintain_order="left")  # type: ignore[arg-type]
    result.streams[""] = [joined.select(*own_columns(step), *PLACE)]
    return result


def _keep(step: Joining, table: SegmentList, rows: pl.DataFrame) -> None:
    """Takes what a table tells: versions in their order, or changes."""
    key = side_key(step)
    if "__gone" in rows.columns:
        rows = rows.sort("__pos", "__sub").unique(key, keep="last", maintain_order=True)
        rows = rows.with_columns(__dead=pl.col("__gone"))
    else:
        rows = latest(rows, key)
    kept = rows.select(
        pl.lit(0, pl.Int64).alias("__window"), *key, *step.right_columns, "__dead"
    )  # fmt: skip
    table.append(kept.sort("__window", "__hash"), BEGINNING)
