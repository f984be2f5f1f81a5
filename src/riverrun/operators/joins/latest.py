"""Streams joined with a table as it stands: its changes first, then the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.columns import PLACE, RowForm
from riverrun.durations import BEGINNING
from riverrun.kernels.changes import latest
from riverrun.kernels.operator import Batch, Input, Leaving, Result, StepState
from riverrun.kernels.state import SegmentList
from riverrun.operators.joins.join import Asked, Join
from riverrun.operators.to_table import table_behind
from riverrun.plan.nodes import Node
from riverrun.plan.rows import passed_on
from riverrun.schema import Schema


@dataclass(frozen=True, kw_only=True)
class LatestJoin(Join):
    key: tuple[str, ...]
    """That rows are written with."""
    replicate: bool
    """Whether the whole table is in every page."""

    kind = "join latest"
    hows = ("inner", "left")
    phrase = "with the table as it stands"

    @classmethod
    def own_fields(cls, left: Node, right: Node, schema: Schema, asked: Asked) -> dict[str, Any]:
        table = table_behind(right)
        replicate = table is not None and table.replicate
        return {"key": passed_on(left, schema), "replicate": replicate}

    @classmethod
    def right_form(cls, right: Node) -> RowForm:
        # the join keeps the table itself: where records come in their order, no step has to
        table = table_behind(right)
        simple = table is not None and table.order == "position" and table.keep is None
        return "versions" if simple else "changes"

    @classmethod
    def added_columns(cls, right: Node, asked: Asked) -> tuple[str, ...]:
        return ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (
            self.input("left", late=False, stays=self.replicate),
            self.input(
                "right", late=False, moves_clock=False, loaded_first=True, everywhere=self.replicate
            ),
        )

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.key)

    def more_words(self) -> list[tuple[str, str]]:
        return []

    def frozen(self) -> dict[str, Any]:
        return super().frozen() | {"replicate": self.replicate}

    def grows(self, tables: list[str]) -> str | None:
        if self.right.form == "versions":
            return f"a row of every {', '.join(theirs for _, theirs in self.on)} of the table"
        return super().grows(tables)

    def advance(self, state: StepState, batch: Batch) -> Result:
        table = state.rows("right")
        if batch.right is not None:
            self._keep(table, batch.right)
        if batch.rows is None:
            return Result()
        rows = batch.rows.with_columns(__slot=pl.lit(0, pl.Int64))
        found = table.lookup(rows)
        if found is None:
            alone = [self.with_nulls("left", rows, *PLACE)] if self.keeps("left") else []
            return Result(streams={"": alone} if alone else {})
        found = found.drop("__slot", "__dead")
        joined = rows.join(found, on=self.side_key, how=self.how, maintain_order="left")
        return Result(streams={"": [joined.select(*self.own_columns(), *PLACE)]})

    def _keep(self, table: SegmentList, rows: pl.DataFrame) -> None:
        """Takes what the table tells: versions in their order, or changes."""
        key = self.side_key
        if self.right.form == "versions":
            rows = rows.sort("__pos", "__sub").unique(key, keep="last", maintain_order=True)
            rows = rows.with_columns(__dead=pl.col("__gone"))
        else:
            rows = latest(rows, key)
        kept = rows.select("__slot", *key, *self.right_columns, "__dead")
        table.append(kept.sort("__slot", "__hash"), BEGINNING)
