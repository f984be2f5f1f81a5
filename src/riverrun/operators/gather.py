"""The changes of a key brought together: where they come from several pages, or leave as facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.errors import Location, ProgramError
from riverrun.kernels.changes import net
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
)
from riverrun.kernels.uses import Use
from riverrun.plan.building import step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import key_of
from riverrun.schema import Column, Schema


@dataclass(frozen=True, kw_only=True)
class Gather(PlainOperator):
    columns: tuple[str, ...]
    """Of the table."""
    facts: bool
    """Whether the changes leave as facts of a stream."""

    kind = "gather"
    takes = "changes"
    can_be_late = False

    @property
    def leaving(self) -> Leaving:
        form = "facts" if self.facts else "changes"
        return Leaving(form=form, key=self.keys, at_tick=self.facts)  # type: ignore[arg-type]

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_changes(self.columns, rows)

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        return Words.of(("gives", "changes as facts" if self.facts else "changes in their order"))

    def frozen(self) -> dict[str, Any]:
        return {}

    def grows(self, tables: list[str]) -> str | None:
        return None

    def advance(self, state: StepState, batch: Batch) -> Result:
        """Of each key the row that is no more, and the one that is there now."""
        if batch.rows is None:
            return Result()
        rows = net(batch.rows, ["__hash", *self.keys], self.columns)
        if not self.facts:
            return Result(changes=[rows.select(*self.columns, "__op", "__revision")])
        facts = rows.select(
            *self.columns,
            pl.when(pl.col("__op") > 0).then(pl.lit("+")).otherwise(pl.lit("-")).alias("op"),
            pl.lit(batch.tick, pl.Int64).cast(pl.Datetime("us")).alias("__at"),
            # before all of records, the same whenever it runs
            (-1 - (pl.col("__hash") // 2).cast(pl.Int64)).alias("__pos"),
            (pl.col("__op") > 0).cast(pl.Int64).alias("__sub"),
        )
        return Result(streams={"": [facts]})


def gathered(rows: Node, name: str, at: Location) -> Step:
    """The same changes, those of a key from one page and in order."""
    schema, keys = rows.schema.visible, key_of(rows)
    types = tuple(map(schema.type_of, keys))
    does = Gather(
        name=name, keys=keys, key_types=types, schema=schema, at=at, on_error="stop",
        columns=schema.names, facts=False,
    )  # fmt: skip
    return Step((rows,), does)


def changes_as_facts(rows: Node, *, name: str | None, at: Location) -> Step:
    schema = rows.schema.visible
    if schema.taken("op"):
        raise ProgramError(
            "the name 'op' is taken",
            where=at,
            got="changes() adds a column of that name",
            hint="rename yours with .select(…)",
        )
    does = Gather(
        **step_fields("changes", rows, key_of(rows), name, named="changes", at=at),
        schema=Schema((*schema.columns, Column("op", "VARCHAR"))),
        on_error="stop",
        columns=schema.names,
        facts=True,
    )
    return Step((rows,), does)
