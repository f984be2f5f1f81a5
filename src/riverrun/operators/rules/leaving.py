"""The rows that leave: what the program declared, whichever rule they are of."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from riverrun.columns import PLACE
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.rules.groups import Group
from riverrun.operators.rules.shape import WHICH
from riverrun.operators.rules.spec import RulesSpec
from riverrun.schema import column_list, quoted

ODD = np.uint64(0x9E3779B97F4A7C15)


def leaving(step: RulesSpec, group: Group, rows: pl.DataFrame) -> pl.DataFrame:
    """Matches of a group, with what is to be told of their rules."""
    rules = group.rules
    told = pl.DataFrame(
        {
            "rule": [each.name for each in rules],
            "version": [each.version for each in rules],
            "metadata": [json.dumps(each.metadata, ensure_ascii=False) for each in rules],
        },
        schema={"rule": pl.String, "version": pl.Int64, "metadata": pl.String},
    )
    which = rows[WHICH].to_numpy()
    whole = rows.drop(WHICH).hstack(told[which])
    measures = [
        f"{quoted(each.name) if each.name in rows.columns else 'NULL'}::{each.type} "
        f"AS {quoted(each.name)}"
        for each in step.measures.columns
    ]
    columns = column_list((*step.keys, "rule", "version", "metadata"))
    query = f"SELECT {', '.join([columns, *measures, column_list(PLACE)])} FROM rows"
    # several rules may find the same rows
    sub = rows["__sub"].to_numpy().astype(np.uint64) ^ (group.ids[which].astype(np.uint64) * ODD)
    whole = whole.with_columns(pl.Series("__sub", (sub >> np.uint64(32)).astype(np.int64)))
    made = shared_evaluator(()).checked(query, whole.to_arrow(), str(step.at))
    return pl.DataFrame(pl.from_arrow(made))
