"""Joined tables: every change on either side gives the changes of the result.

A change of the left side meets the right side's rows as they were; a change of the right side the
left's as they are now. So work is in proportion to what changes in the result, not to the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import polars as pl

from riverrun.columns import RowForm
from riverrun.durations import BEGINNING
from riverrun.kernels.changes import latest, zero_signs
from riverrun.kernels.operator import Batch, Input, Leaving, Result, Standing, StepState
from riverrun.kernels.state import SegmentList
from riverrun.operators.joins.join import SIDES, Asked, How, Join, Side
from riverrun.plan.nodes import Node
from riverrun.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TableJoin(Join):
    kind = "join tables"
    hows = get_args(How)
    phrase = "two tables"

    @classmethod
    def own_fields(cls, left: Node, right: Node, schema: Schema, asked: Asked) -> dict[str, Any]:
        return {}

    @classmethod
    def right_form(cls, right: Node) -> RowForm:
        return "changes"

    @classmethod
    def added_columns(cls, right: Node, asked: Asked) -> tuple[str, ...]:
        return ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.input("left", late=False), self.input("right", late=False)

    @property
    def leaving(self) -> Leaving:
        key = self._key()
        # rows are in the page of what they are joined by: is that part of what tells them apart?
        scattered = not {left for left, _ in self.on} <= set(key)
        return Leaving(form="changes", key=key, scattered=scattered)

    def _key(self) -> tuple[str, ...]:
        """What tells the rows of the joined table apart."""
        mine, theirs = self.left.key, self.right.key
        shared = {right: left for left, right in self.on if left in self.shared}
        theirs_here = tuple(shared.get(name) or self.right.renamed[name] for name in theirs)
        if self.how in ("inner", "left") and set(theirs) <= {right for _, right in self.on}:
            return mine
        if self.how in ("inner", "right") and set(mine) <= {left for left, _ in self.on}:
            return theirs_here
        return tuple(dict.fromkeys((*mine, *theirs_here)))

    def more_words(self) -> list[tuple[str, str]]:
        return []

    @property
    def standing(self) -> Standing:
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        left, right = (state.rows(side, self.identity(side)).standing() for side in SIDES)
        parts = []
        if left is not None and right is not None:
            both = self.pairs(left.drop("__dead"), right.drop("__dead"))
            parts.append(both.select(self.own_columns()))
        for side, rows, others in zip(SIDES, (left, right), (right, left), strict=True):
            if rows is not None and self.keeps(side):
                alone = rows if others is None else rows.join(others, on=self.side_key, how="anti")
                parts.append(self.with_nulls(side, alone))
        return pl.concat(parts) if parts else None

    def advance(self, state: StepState, batch: Batch) -> Result:
        rows = {"left": batch.rows, "right": batch.right}
        kept = {
            "left": state.rows("left", within_key=self.identity("left")),
            "right": state.rows("right", within_key=self.identity("right")),
        }
        touched = _keys(self, *rows.values())
        outer = self.how != "inner"
        was = {
            "left": kept["left"].lookup(touched) if outer else None,
            "right": kept["right"].lookup(touched if outer else _keys(self, batch.rows)),
        }
        parts = [_pairs(self, rows["left"], was["right"])]
        _keep(self, kept["left"], rows["left"], self.identity("left"))
        parts.append(_pairs(self, kept["left"].lookup(_keys(self, rows["right"])), rows["right"]))
        _keep(self, kept["right"], rows["right"], self.identity("right"))
        if self.keeps("left"):
            theirs = _counts(self, was["right"], rows["right"])
            came = rows["right"] is not None
            parts += _alone(self, "left", kept["left"], theirs, old=was["left"],
                            changes=rows["left"], others_changed=came)  # fmt: skip
        if self.keeps("right"):
            theirs = _counts(self, was["left"], rows["left"])
            came = rows["left"] is not None
            parts += _alone(self, "right", kept["right"], theirs, old=was["right"],
                            changes=rows["right"], others_changed=came)  # fmt: skip
        found = [part for part in parts if part is not None and part.height]
        return Result(changes=[_net(self, pl.concat(found))] if found else [])


def _keys(step: TableJoin, *frames: pl.DataFrame | None) -> pl.DataFrame:
    """The keys of the rows, each once."""
    parts = [frame.select("__slot", *step.side_key) for frame in frames if frame is not None]
    return pl.concat(parts).unique(maintain_order=True) if parts else pl.DataFrame()


def _keep(
    step: TableJoin, kept: SegmentList, rows: pl.DataFrame | None, identity: tuple[str, ...]
) -> None:
    if rows is not None:
        stands = latest(rows, [*step.side_key, *identity]).drop("__op")
        kept.append(stands.sort("__slot", "__hash"), BEGINNING)


def _pairs(
    step: TableJoin, left: pl.DataFrame | None, right: pl.DataFrame | None
) -> pl.DataFrame | None:
    """Pairs of rows that are there and rows that change, with the change's sign."""
    if left is None or right is None:
        return None
    pairs = step.pairs(left.drop("__dead", strict=False), right.drop("__dead", strict=False))
    revision = pl.col("__revision") + pl.col("__revision__right")
    return pairs.select(*step.own_columns(), "__op", revision)


def _alone(
    step: TableJoin,
    side: Side,
    kept: SegmentList,
    count: pl.DataFrame | None,
    *,
    old: pl.DataFrame | None,
    changes: pl.DataFrame | None,
    others_changed: bool,
) -> list[pl.DataFrame]:
    """Changes of a side's rows for which the other side has none, before or after. `count` is how
    many it has of each key, `old` the rows as they were."""
    key = step.side_key
    found = []
    if changes is not None:
        met = None if count is None else count.filter((pl.col("was") > 0) | (pl.col("now") > 0))
        found.append(changes if met is None else changes.join(met, on=key, how="anti"))
    if count is not None and others_changed:
        came = count.filter((pl.col("was") == 0) & (pl.col("now") > 0))
        if old is not None and came.height:
            found.append(_signed(old.join(came, on=key, how="semi"), -1))
        went = count.filter((pl.col("was") > 0) & (pl.col("now") == 0))
        wanted = went.select(pl.lit(0, pl.Int64).alias("__slot"), *key)
        left = kept.lookup(wanted) if went.height else None
        if left is not None:
            found.append(_signed(left, 1))
    return [step.with_nulls(side, rows, "__op", "__revision") for rows in found]


def _signed(rows: pl.DataFrame, op: int) -> pl.DataFrame:
    return rows.with_columns(__op=pl.lit(op, pl.Int8))


def _counts(
    step: TableJoin, were: pl.DataFrame | None, changes: pl.DataFrame | None
) -> pl.DataFrame | None:
    """How many rows the other side has of each key that is touched, before and after."""
    key = step.side_key
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


def _net(step: TableJoin, rows: pl.DataFrame) -> pl.DataFrame:
    """Without what is put there and taken back again."""
    if rows["__op"].min() > 0 or rows["__op"].max() < 0:  # type: ignore[operator]
        return rows
    names = step.schema.names
    summed = rows.group_by(*names, *zero_signs(rows, names), maintain_order=True).agg(
        pl.col("__op").sum(), pl.col("__revision").max()
    )
    left = summed.filter(pl.col("__op") != 0).with_columns(pl.col("__op").cast(pl.Int8))
    return left.select(*names, "__op", "__revision")
