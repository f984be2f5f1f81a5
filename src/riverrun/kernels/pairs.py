"""What joins have in common: rows of two sides by key, as columns of the result."""

from __future__ import annotations

import polars as pl

from riverrun.kernels.typed import columns_of
from riverrun.program import Joining, Side

RIGHT = "__right"
"""The suffix of hidden columns that both sides have, for those of the right one."""


def side_key(step: Joining) -> list[str]:
    return ["__hash", *step.keys]


def joined(step: Joining, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Pairs of rows with the same key. A key that is null is like no other."""
    return left.join(right, on=side_key(step), suffix=RIGHT, maintain_order="left_right")


def own_columns(step: Joining) -> list[pl.Expr]:
    """The columns of the result, in their order, from pairs of rows."""
    shared = {name: key for key, name in step.shared}
    return [pl.col(shared.get(name, name)).alias(name) for name in step.schema.names]


def with_nulls(step: Joining, side: Side, rows: pl.DataFrame, *hidden: str) -> pl.DataFrame:
    """Rows of one side as rows of the result: the other side's columns are null."""
    own = {name: name for name in (step.left_columns if side == "left" else step.right_columns)}
    own |= {name: key for key, name in step.shared}
    types = columns_of(step.schema).types
    columns = [
        (pl.col(own[name]) if name in own else pl.lit(None, type)).alias(name)
        for name, type in types.items()
    ]
    return rows.select(*columns, *hidden)
