"""Rows of a table for some time after their last change: what feeds a step that says `keep`.

Changes have no time of their own: they count from where the step's clock stands after the batch
that brings them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.durations import BEGINNING, duration_text
from riverrun.errors import Location
from riverrun.kernels import ending
from riverrun.kernels.changes import changed, latest
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Input,
    Leaving,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.operators.to_table import beside, replaced
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import key_of, scattered


@dataclass(frozen=True, kw_only=True)
class Keep(PlainOperator):
    keep: int
    stays: bool
    """Whether all changes of a row come from one page, so that no exchange is needed."""

    kind = "keep"
    takes = "changes"
    can_be_late = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(takes="changes", late=False, stays=self.stays),)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=self.keys)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_changes(self.schema.names, rows)

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        return Words.of(("keeps", f"rows for {duration_text(self.keep)} after their last change"))

    def frozen(self) -> dict[str, Any]:
        return {"columns": self.schema.ddl()}

    def settings(self) -> dict[str, Any]:
        return {"keep": self.keep}

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        return ending.fitted(rows, self.keep)

    def grows(self, tables: list[str]) -> str | None:
        return None

    @property
    def standing(self) -> Standing:
        return lambda state, clock: state.rows().standing()

    def advance(self, state: StepState, batch: Batch) -> Result:
        result, kept = Result(), state.rows()
        if batch.rows is not None:
            result.changes += self._take(kept, batch.rows, batch.after)
        gone = ending.ended(kept, batch.before, batch.after)
        if gone is not None:
            result.changes.append(changed(gone, self.schema.names, -1))
        return result

    def _take(self, kept: SegmentList, rows: pl.DataFrame, clock: int) -> list[pl.DataFrame]:
        """What is taken back of a row that has ended is gone already."""
        key = ["__hash", *self.keys]
        new = latest(rows, key).drop("__op", "__revision").rename({"__dead": "__gone"})
        new = new.with_columns(__changed=pl.lit(clock, pl.Int64)).with_columns(
            ending.ends(self.keep)
        )
        old = beside(kept, new, key)
        found = replaced(new, old, self.schema.names, old["__revision"].is_not_null())
        # a row that is told again has changed, if only in columns that are not seen here
        written = found.rows.filter(found.differs | ~new["__gone"]).drop("__gone")
        kept.append(written.sort("__slot", "__hash"), BEGINNING)
        return found.changes


def keeping(rows: Node, keep: int | None, name: str, at: Location) -> Node:
    """The rows of a table, as a step takes them that keeps them for some time only."""
    if keep is None:
        return rows
    schema, keys = rows.schema.visible, key_of(rows)
    does = Keep(
        name=name,
        keys=keys,
        key_types=tuple(map(schema.type_of, keys)),
        schema=schema,
        at=at,
        on_error="stop",
        keep=keep,
        stays=not scattered(rows),
    )
    return Step((rows,), does)
