"""The kernel of rankings: of the rows of a group, the first ones by a value."""

from __future__ import annotations

import polars as pl

from riverrun.event_time import BEGINNING
from riverrun.kernels.steps import Batch, Result, StepState
from riverrun.kernels.tables import changed, latest, net
from riverrun.program import Ranking


def advance(step: Ranking, state: StepState, batch: Batch) -> Result:
    result = Result()
    if batch.rows is None:
        return result
    group = ["__hash", *step.keys]
    kept = state.rows(within_key=step.identity)
    groups = batch.rows.select("__window", *group).unique(maintain_order=True)
    before = kept.lookup(groups)
    stands = latest(batch.rows, [*group, *step.identity]).drop("__op")
    kept.append(stands.sort("__window", "__hash"), BEGINNING)
    after = kept.lookup(groups)
    columns = (*step.columns, *((step.place,) if step.place else ()))
    parts = [
        changed(_first(step, rows), columns, op)
        for rows, op in ((before, -1), (after, 1))
        if rows is not None
    ]
    if parts:
        rows = net(pl.concat(parts), [*step.keys, *step.identity], columns)
        result.changes.append(rows)
    return result


def _first(step: Ranking, rows: pl.DataFrame) -> pl.DataFrame:
    """The first rows of each group; of rows with the same value, by their key."""
    group = ["__hash", *step.keys]
    by = [*group, "__by", *step.identity]
    descending = [name == "__by" and step.descending for name in by]
    rows = rows.sort(by, descending=descending, nulls_last=True)
    place = pl.int_range(pl.len()).over(group) + 1
    name = step.place or "__place"
    return rows.with_columns(place.cast(pl.Int64).alias(name)).filter(pl.col(name) <= step.limit)
