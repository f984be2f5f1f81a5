"""Groups by a window of the table that they are made of: nothing changes in them once it is closed.

What a step keeps of them is kept under the window's time as its slot, and goes with the window, as
the window's own rows do. What was written stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from riverrun.operators.windows.grid import Grid
from riverrun.schema import quoted


@dataclass(frozen=True)
class Finished:
    """The window that a column tells, and how long its rows are corrected."""

    column: str
    ending: bool
    """Whether the column is the window's end."""
    window: Grid
    updatable: int

    def closed(self, clock: int) -> int:
        """Windows up to this one do not change any more."""
        start = self.window.last_complete(clock - self.updatable)
        return self.window.utc(start + self.window.size if self.ending else start)

    @property
    def slot(self) -> str:
        return f"epoch_us({quoted(self.column)})"

    def called(self, name: str) -> Finished:
        return replace(self, column=name)

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state that were kept without a slot."""
        if not rows.height or (rows["__slot"] != 0).any():
            return rows
        slot = pl.col(self.column).dt.epoch("us").alias("__slot")
        return rows.with_columns(slot).sort("__slot", "__hash")
