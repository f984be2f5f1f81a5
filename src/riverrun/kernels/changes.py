"""What kernels over the changes of tables share."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def net(rows: pl.DataFrame, key: list[str], columns: tuple[str, ...]) -> pl.DataFrame:
    """At most one `-` and one `+` row of each key; none if they are the same."""
    if rows["__op"].min() > 0:  # type: ignore[operator]
        return rows
    once = rows.filter(pl.len().over([*key, *columns, *zero_signs(rows, columns)]) == 1)
    return once.sort([*key, "__op", "__revision"])


def zero_signs(rows: pl.DataFrame, columns: tuple[str, ...]) -> list[pl.Expr]:
    """What tells 0.0 and -0.0 apart, which are equal but not written alike; for columns that have
    zeros."""
    floats = (name for name in columns if rows.schema[name].is_float())
    zeros = (name for name in floats if (rows[name] == 0).any())
    return [(1 / pl.col(name)).alias(f"__sign_{name}") for name in zeros]


def latest(rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """What stands of each key after changes: its last `+` row, or its `-` row with `__dead`."""
    rows = rows.sort("__op", maintain_order=True)
    last = rows.unique(key, keep="last", maintain_order=True)
    return last.with_columns(__dead=pl.col("__op") < 0)


def changed(rows: pl.DataFrame, columns: tuple[str, ...], op: int) -> pl.DataFrame:
    return rows.select(*columns, pl.lit(op, pl.Int8).alias("__op"), "__revision")


def begins(keys: list[str]) -> pl.Expr:
    """Whether a row, of rows sorted by key, is the first one of its key."""
    other = (pl.col(name).ne_missing(pl.col(name).shift()) for name in keys)
    return pl.any_horizontal(*other) | (pl.int_range(pl.len()) == 0)


def differing(
    was: pl.DataFrame, now: pl.DataFrame, columns: Iterable[str] | None = None
) -> pl.Series:
    """Whether rows side by side differ in any of the columns, or of all."""
    differs = pl.Series([False]).new_from_index(0, was.height)
    for name in was.columns if columns is None else columns:
        differs = differs | was[name].ne_missing(now[name])
        if was.schema[name].is_float() and (was[name] == 0).any():
            # 0.0 and -0.0 are equal, but not written alike
            differs = differs | (1 / was[name]).ne_missing(1 / now[name])
    return differs
