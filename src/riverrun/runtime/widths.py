"""How many bytes each row of a frame takes, about."""

from __future__ import annotations

import polars as pl


def row_bytes(rows: pl.DataFrame) -> pl.Series:
    found = pl.Series([0], dtype=pl.Int64).new_from_index(0, rows.height)
    for column in rows:
        found = found + _widths(column)
    return found


def _widths(column: pl.Series) -> pl.Series:
    kind = column.dtype
    if kind == pl.String:
        return column.str.len_bytes().fill_null(0).cast(pl.Int64)
    if kind == pl.Binary:
        return column.bin.size().fill_null(0).cast(pl.Int64)
    if isinstance(kind, pl.Struct):
        return row_bytes(column.struct.unnest())
    if isinstance(kind, pl.List):
        inner = column.explode(empty_as_null=False, keep_nulls=False)
        each = row_bytes(inner.to_frame()).mean() if inner.len() else 0
        return (column.list.len().fill_null(0) * each).cast(pl.Int64)
    # any other: a number, a time or a truth of fixed size
    each = max(column.estimated_size() // max(column.len(), 1), 1)
    return pl.Series([each], dtype=pl.Int64).new_from_index(0, column.len())
