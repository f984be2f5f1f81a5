"""Lists of state that are changed in other ways than by time and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.kernels.chunks import with_hash
from riverrun.kernels.state import SegmentList

ONE = "__one"
"""The key of all rows: they are in one page."""


def placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows as they are kept."""
    one = with_hash(pl.DataFrame({ONE: [0]}), (ONE,)).with_columns(pl.lit(0).alias("__slot"))
    return rows.join(one.cast({"__slot": pl.Int64}), how="cross")


def rows_of(kept: SegmentList, schema: Mapping[str, Any]) -> pl.DataFrame:
    """All rows, with these columns: null where an earlier version did not keep them."""
    parts = [segment.rows for segment in kept.segments]
    found = pl.concat([pl.DataFrame(schema=schema), *parts], how="diagonal")
    return found.select(list(schema))


def put(kept: SegmentList, rows: pl.DataFrame) -> None:
    """These rows in place of all."""
    before = rows_of(kept, rows.schema)
    if before.equals(rows):
        return
    for segment in list(kept.segments):
        kept.remove(segment)
    kept.append(rows, BEGINNING)


def rest(kept: SegmentList, staying: list[pl.DataFrame], *, new: bool) -> None:
    """What stays of each segment, and of new rows behind them; a whole one is not written again."""
    fresh = staying.pop() if new else None
    for segment, rows in list(zip(kept.segments, staying, strict=True)):
        if rows.height < segment.rows.height:
            kept.remove(segment)
            if rows.height:
                fresh = rows if fresh is None else pl.concat([rows, fresh], how="diagonal")
    kept.append(fresh, BEGINNING)
