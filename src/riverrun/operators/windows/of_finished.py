"""The window of groups that are those of a window before: they end with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.kernels.operator import Entry
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.finished import Finished
from riverrun.operators.windows import entry
from riverrun.operators.windows.all_time import AllTime


@dataclass(frozen=True)
class OfFinished(AllTime):
    """Its kind is that of all time: a checkpoint of the one fits the other."""

    finished: Finished

    @property
    def kept(self) -> str:
        return f"until the window of {self.finished.column} is closed"

    @property
    def ends(self) -> bool:
        return True

    @property
    def leaves_rows(self) -> bool:
        return True

    def frozen(self) -> dict[str, Any]:
        return {}

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        return entry.signed(step, rows, self.finished.slot)

    def last_closed(self, instant: int) -> int:
        return self.finished.closed(instant)

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self.finished.fitted(rows)
