"""The kernel of joined tables: every change on either side gives the changes of the result.

A change of the left side meets the right side's rows as they were; a change of the right side the
left's as they are now. So work is in proportion to what changes in the result, not to the tables.
"""

from __future__ import annotations

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.kernels.pairs import joined, own_columns, side_key, with_nulls
from riverrun.kernels.state import SegmentList
from riverrun.kernels.steps import Batch, Result, StepState
from riverrun.kernels.tables import latest
from riverrun.program import Joining, Side


def advance(step: Joining, state: StepState, batch: Batch) -> Result:
    rows = {"left": batch.rows, "right": batch.right}
    kept = {
        "left": state.rows("left", within_key=step.left_identity),
        "right": state.rows("right", within_key=step.right_identity),
    }
    touched = _keys(step, *rows.values())
    outer = step.how != "inner"
    was = {
        "left": kept["left"].lookup(touched) if outer else None,
        "right": kept["right"].lookup(touched if outer else _keys(step, batch.rows)),
    }
    parts = [_pairs(step, rows["left"], was["right"])]
    _keep(step, kept["left"], rows["left"], step.left_identity)
    parts.append(_pairs(step, kept["left"].lookup(_keys(step, rows["right"])), rows["right"]))
    _keep(step, kept["right"], rows["right"], step.right_identity)
    if step.keeps("left"):
        parts += _alone(step, "left", (kept["left"], was["left"], rows["left"]),
                        (was["right"], rows["right"]))  # fmt: skip
    if step.keeps("right"):
        parts += _alone(step, "right", (kept["right"], was["right"], rows["right"]),
                        (was["left"], rows["left"]))  # fmt: skip
    found = [part for part in parts if part is not None and part.height]
    return Result(changes=[_net(step, pl.concat(found))] if found else [])


def _keys(step: Joining, *frames: pl.DataFrame | None) -> pl.DataFrame:
    """The keys of the rows, each once."""
    parts = [frame.select("__window", *side_key(step)) for frame in frames if frame is not None]
    return pl.concat(parts).unique(maintain_order=True) if parts else pl.DataFrame()


def _keep(
    step: Joining, kept: SegmentList, rows: pl.DataFrame | None, identity: tuple[str, ...]
) -> None:
    if rows is not None:
        stands = latest(rows, [*side_key(step), *identity]).drop("__op")
        kept.append(stands.sort("__window", "__hash"), BEGINNING)


def _pairs(
    step: Joining, left: pl.DataFrame | None, right: pl.DataFrame | None
) -> pl.DataFrame | None:
    """Pairs of rows that are there and rows that change, with the change's sign."""
    if left is None or right is None:
        return None
    pairs = joined(step, left.drop("__dead", strict=False), right.drop("__dead", strict=False))
    revision = pl.col("__revision") + pl.col("__revision__right")
    return pairs.select(*own_columns(step), "__op", revision)


def _alone(
    step: Joining,
    side: Side,
    ours: tuple[SegmentList, pl.DataFrame | None, pl.DataFrame | None],
    theirs: tuple[pl.DataFrame | None, pl.DataFrame | None],
) -> list[pl.DataFrame]:
    """Changes of a side's rows for which the other side has none, before or after."""
    kept, old, changes = ours
    key = side_key(step)
    count = _counts(step, *theirs)
    found = []
    if changes is not None:
        met = None if count is None else count.filter((pl.col("was") > 0) | (pl.col("now") > 0))
        found.append(changes if met is None else changes.join(met, on=key, how="anti"))
    if count is not None and theirs[1] is not None:
        came = count.filter((pl.col("was") == 0) & (pl.col("now") > 0))
        if old is not None and came.height:
            found.append(_signed(old.join(came, on=key, how="semi"), -1))
        went = count.filter((pl.col("was") > 0) & (pl.col("now") == 0))
        wanted = went.select(pl.lit(0, pl.Int64).alias("__window"), *key)
        left = kept.lookup(wanted) if went.height else None
        if left is not None:
            found.append(_signed(left, 1))
    return [with_nulls(step, side, rows, "__op", "__revision") for rows in found]


def _signed(rows: pl.DataFrame, op: int) -> pl.DataFrame:
    return rows.with_columns(__op=pl.lit(op, pl.Int8))


def _counts(
    step: Joining, were: pl.DataFrame | None, changes: pl.DataFrame | None
) -> pl.DataFrame | None:
    """How many rows the other side has of each key that is touched, before and after."""
    key = side_key(step)
    none = pl.lit(0, pl.Int64)
    parts = []
    if were is not None:
        parts.append(were.select(*key, none.alias("op"), pl.lit(1, pl.Int64).alias("was")))
    if changes is not None:
        parts.append(changes.select(*key, pl.col("__op").cast(pl.Int64).alias("op"),
                                    none.alias("was")))  # fmt: skip
    if not parts:
        return None
    rows = pl.concat(parts).drop_nulls(list(step.keys))
    counted = rows.group_by(key).agg(pl.col("was").sum(), pl.col("op").sum())
    return counted.select(*key, "was", (pl.col("was") + pl.col("op")).alias("now"))


def _net(step: Joining, rows: pl.DataFrame) -> pl.DataFrame:
    """Without what is put there and taken back again."""
    if rows["__op"].min() > 0 or rows["__op"].max() < 0:  # type: ignore[operator]
        return rows
    summed = rows.group_by(step.schema.names, maintain_order=True).agg(
        pl.col("__op").sum(), pl.col("__revision").max()
    )
    return summed.filter(pl.col("__op") != 0).with_columns(pl.col("__op").cast(pl.Int8))
