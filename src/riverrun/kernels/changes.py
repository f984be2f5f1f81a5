"""What kernels over the changes of tables share."""

from __future__ import annotations

import polars as pl


def net(rows: pl.DataFrame, key: list[str], columns: tuple[str, ...]) -> pl.DataFrame:
    """At most one `-` and one `+` row of each key; none if they are the same."""
    if rows["__op"].min() > 0:  # type: ignore[operator]
        return rows
    once = rows.filter(pl.len().over([*key, *columns]) == 1)
    return once.sort([*key, "__op", "__revision"])


def latest(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """What stands of each key after changes: its last `+` row, or its `-` row with `__dead`."""
    rows = rows.sort("__op", maintain_order=True)
    last = rows.unique(key, keep="last", maintain_order=True)
    return last.with_columns(__dead=pl.col("__op") < 0)


def changed(rows: pl.DataFrame, columns: tuple[str, ...], op: int) -> pl.DataFrame:
    return rows.select(*columns, pl.lit(op, pl.Int8).alias("__op"), "__revision")
