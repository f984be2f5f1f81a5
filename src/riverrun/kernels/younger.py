"""Aggregates that are younger than the state of their step: they start from where they were added.

Segments stay as they were written until they are merged; what is read of them is made to fit.
"""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from riverrun.columns import PLACE
from riverrun.kernels.aggregates import as_kept, part_columns, parts_sql
from riverrun.kernels.chunks import pack, unpack
from riverrun.kernels.parts import Aggregation, Since
from riverrun.kernels.sql import Evaluator
from riverrun.schema import Schema, quoted

PLACE_TYPES = tuple(zip(PLACE, ("TIMESTAMP", "BIGINT", "BIGINT"), strict=True))
PART = re.compile(r"__.+__\w+")
"""The name of a column that is a part; no other column has such a name."""


def since(
    aggregation: Aggregation, generation: int, rows: Schema, evaluator: Evaluator
) -> Aggregation:
    """The aggregate, for a step that has state without it. `rows` are the columns that it is over.

    What it is of no rows is asked of the SQL that makes its parts: each kind has its own nothing.
    """
    made = replace(aggregation, since=Since(generation, b""))
    columns = [*((each.name, each.type) for each in rows.columns), *PLACE_TYPES]
    nothing = ", ".join(f"NULL::{type} AS {quoted(name)}" for name, type in columns)
    parts = ", ".join(parts_sql((made,)))
    found = pl.DataFrame(evaluator.run(f"SELECT {parts} FROM (SELECT {nothing} WHERE false)"))
    return replace(made, since=Since(generation, pack(as_kept(found, (made,)))))


def fitted(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    """Parts that are no longer asked for are dropped; younger ones that are missing know of no
    row. Their order is that of rows that are made anew."""
    wanted = part_columns(aggregations)
    known = [name for name in rows.columns if PART.fullmatch(name)]
    if not known or known == wanted:
        return rows
    empty = {
        column.name: column
        for each in aggregations
        if each.since is not None
        for column in unpack(each.since.empty)
    }
    parts = [
        pl.col(name) if name in rows.columns else pl.lit(empty[name]).first().alias(name)
        for name in wanted
    ]
    at = rows.columns.index(known[0])
    before, after = rows.columns[:at], [n for n in rows.columns[at:] if n not in known]
    return rows.select(*before, *parts, *after)
