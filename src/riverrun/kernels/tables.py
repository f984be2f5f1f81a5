"""The kernels of tables: the latest row per key, and changes of a key brought together."""

from __future__ import annotations

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.kernels.state import SegmentList
from riverrun.kernels.steps import PLACE, Batch, Result, StepState, differing
from riverrun.program import Settling, Tabling

ORDER = {"position": ["__pos", "__sub"], "time": list(PLACE)}


def advance(step: Tabling, state: StepState, batch: Batch) -> Result:
    """Rows replace the one before with their key; those that are `__gone` delete it."""
    result, kept = Result(), state.rows()
    if batch.rows is None:
        return result
    order, key = ORDER[step.order], ["__hash", *step.keys]
    new = batch.rows.sort(order).unique(key, keep="last", maintain_order=True)
    old = beside(kept, new, key)
    if step.order == "time":
        newer = _newer(new, old)
        new, old = new.filter(newer), old.filter(newer)
    was_there = old["__revision"].is_not_null()
    if step.order == "time":
        was_there &= ~old["__gone"].fill_null(True)
    differs = differing(old.select(step.columns), new.select(step.columns))
    taken_back = was_there & (new["__gone"] | differs)
    put_there = ~new["__gone"] & (~was_there | differs)
    new = new.with_columns(
        __revision=old["__revision"].fill_null(-1) + put_there.cast(pl.Int64),
        __dead=new["__gone"],
    )
    result.changes += [
        changed(old.filter(taken_back), step.columns, -1),
        changed(new.filter(put_there), step.columns, 1),
    ]
    if step.order == "time":
        # what came before a deletion may still arrive: the deletion must be known then
        written = new.with_columns(__dead=pl.lit(False))
    else:
        written = new.filter(taken_back | put_there).drop(PLACE).drop("__gone")
    kept.append(written.sort("__window", "__hash"), BEGINNING)
    return result


def _newer(new: pl.DataFrame, old: pl.DataFrame) -> pl.Series:
    """Whether rows come after the ones that are kept of their key."""
    earlier = pl.Series([False]).new_from_index(0, new.height)
    same = ~earlier
    for name in PLACE:
        earlier |= same & (new[name] < old[name]).fill_null(False)
        same &= new[name].eq_missing(old[name])
    return ~earlier


def settle(step: Settling, state: StepState, batch: Batch) -> Result:
    """Of each key the row that is no more, and the one that is there now."""
    result = Result()
    if batch.rows is None:
        return result
    key = ["__hash", *step.keys]
    rows = net(batch.rows, key, step.columns)
    if not step.facts:
        result.changes.append(rows.select(*step.columns, "__op", "__revision"))
        return result
    facts = rows.select(
        *step.columns,
        pl.when(pl.col("__op") > 0).then(pl.lit("+")).otherwise(pl.lit("-")).alias("op"),
        pl.lit(batch.tick, pl.Int64).cast(pl.Datetime("us")).alias("__at"),
        # before all of records, the same whenever it runs
        (-1 - (pl.col("__hash") // 2).cast(pl.Int64)).alias("__pos"),
        (pl.col("__op") > 0).cast(pl.Int64).alias("__sub"),
    )
    result.streams[""] = [facts]
    return result


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


def beside(kept: SegmentList, rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The row that is kept of each row's key, side by side; nulls where there is none."""
    found = kept.lookup(rows)
    if found is None:
        names = [name for name in rows.columns if name not in key]
        missing = [pl.lit(None, rows.schema[name]).alias(name) for name in names]
        return rows.select(*key, *missing, pl.lit(None, pl.Int64).alias("__revision"))
    return rows.select(key).join(found, on=key, how="left", nulls_equal=True, maintain_order="left")


def changed(rows: pl.DataFrame, columns: tuple[str, ...], op: int) -> pl.DataFrame:
    return rows.select(*columns, pl.lit(op, pl.Int8).alias("__op"), "__revision")
