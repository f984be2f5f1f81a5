"""The one window that never ends; the same as no window. Also the window of a table's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.arguments import checked
from riverrun.durations import BEGINNING, END
from riverrun.kernels.operator import Batch, Entry, Result, StepState
from riverrun.operators.aggregate import Aggregate, StandingWindows, Window
from riverrun.operators.windows import entry, tumbling
from riverrun.schema import Column, Schema


@dataclass(frozen=True)
class AllTime(Window):
    kind = "all"
    text = None
    suffix = ""

    def columns(self, rows: Schema, keys: tuple[str, ...]) -> tuple[Column, ...]:
        return tuple(Column(name, rows.type_of(name)) for name in keys)

    def key(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        if step.signed:
            return entry.signed(step, rows)
        query = entry.combined(step, rows, "0::BIGINT")
        return Entry(query, query)

    def last_complete(self, instant: int) -> int:
        return END if instant > END // 2 else BEGINNING

    def last_closed(self, instant: int) -> int:
        return BEGINNING

    def done(self, instant: int) -> int:
        return END

    def bounds(self, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
        return []

    def seconds(self, start: pl.Expr, end: pl.Expr) -> pl.Expr | None:
        return None

    def end(self, slot: pl.Expr) -> pl.Expr:
        return slot

    def compared(self) -> int | None:
        return None

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        return tumbling.advance(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return tumbling.standing


@checked
def all_time() -> AllTime:
    """The one window that never ends; the same as no window."""
    return AllTime()
