"""The rows that leave: what the program declared, whichever rule they are of."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from riverrun.columns import PLACE
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.rules.groups import Group
from riverrun.operators.rules.shape import WHICH
from riverrun.operators.rules.spec import SAID, RulesSpec
from riverrun.schema import Schema, quoted

ODD = np.uint64(0x9E3779B97F4A7C15)


def leaving(step: RulesSpec, group: Group, rows: pl.DataFrame) -> pl.DataFrame:
    """Matches of a group, with what is to be told of their rules."""
    which = rows[WHICH].to_numpy()
    made = [
        rows[name].cast(type)
        if name in rows.columns
        else pl.Series(name, [None], type).new_from_index(0, rows.height)
        for name, type in _types(step.measures).items()
    ]
    # several rules may find the same rows
    sub = rows["__sub"].to_numpy().astype(np.uint64) ^ (group.ids[which].astype(np.uint64) * ODD)
    place = pl.Series("__sub", (sub >> np.uint64(32)).astype(np.int64))
    whole = rows.select(*step.keys, *PLACE).with_columns(place, *made).hstack(group.told[which])
    said = (each.name for each in SAID)
    return whole.select(*step.keys, *said, *step.measures.names, *PLACE)


@lru_cache(maxsize=64)
def _types(schema: Schema) -> dict[str, pl.DataType]:
    """How columns of these types travel."""
    columns = ", ".join(f"NULL::{c.type} AS {quoted(c.name)}" for c in schema.columns)
    empty = pl.DataFrame(pl.from_arrow(shared_evaluator(()).run(f"SELECT {columns} LIMIT 0")))
    return dict(empty.schema)
