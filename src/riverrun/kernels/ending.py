"""Rows that end: some time after their last change they are deleted, as if somebody had done it.

Beside each row stands when it was changed last, `__changed`, and when it ends, `__until`. The
order of `__until` in each segment is the index of deadlines. A row that has ended is marked dead,
like one that was deleted: another one of its key starts anew.
"""

from __future__ import annotations

import polars as pl

from riverrun.durations import BEGINNING, END
from riverrun.kernels.state import SegmentList

CHANGED, UNTIL = pl.col("__changed"), pl.col("__until")


def ends(keep: int | None) -> pl.Expr:
    """When rows end. One whose last change is not known stays until it changes again."""
    if keep is None:
        return pl.lit(END, pl.Int64).alias("__until")
    known = CHANGED > BEGINNING
    return pl.when(known).then(CHANGED + keep).otherwise(END).alias("__until")


def fitted(rows: pl.DataFrame, keep: int | None) -> pl.DataFrame:
    """Rows of state that were kept for another time, or for ever, as they are kept now."""
    if keep is None:
        return rows.drop("__changed", "__until", strict=False)
    if "__changed" not in rows.columns:
        rows = rows.with_columns(pl.lit(None, pl.Int64).alias("__changed"))
    return in_order(rows.with_columns(not_before(rows, ends(keep))))


def not_before(rows: pl.DataFrame, until: pl.Expr) -> pl.Expr:
    """When rows of state end: never earlier than was said, for that may have passed by now. Where
    nothing was said they stay until they change again."""
    if "__until" not in rows.columns:
        return pl.lit(END, pl.Int64).alias("__until")
    return pl.max_horizontal(UNTIL, until).alias("__until")


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Columns as they are in rows that are kept anew."""
    last = [n for n in ("__changed", "__until", "__revision", "__dead") if n in rows.columns]
    return rows.select(*(name for name in rows.columns if name not in last), *last)


def ended(kept: SegmentList, before: int, after: int) -> pl.DataFrame | None:
    """The rows that end as the clock goes on, which are gone from then on. The end of all input
    is no time: nothing ends with it."""
    if after >= END or after <= before:
        return None
    due = kept.due(before, after)
    if due is None or not due.height:
        return None
    kept.append(due.with_columns(__dead=pl.lit(True)).sort("__slot", "__hash"), BEGINNING)
    return due
