"""State by key for processors: a row per key, and per clock a list of when to look at a key again.

A look is a hint. It is never later than the key's earliest timer, and may be for one that has been
moved or cancelled since; the key's row tells. So moving a timer to later writes no new look.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.kernels.operator import Batch, StepState
from riverrun.kernels.state import SegmentList
from riverrun.operators.process.spec import ProcessSpec

CLOCKS = ("event", "processing")
LOOKS = {"event": "__look", "processing": "__look_tick"}
DUE = {"event": "__due", "processing": "__due_tick"}
"""When the earliest timer of each clock fires."""


@dataclass(frozen=True)
class KeyedRows:
    """The keys of a step in one page, in one batch."""

    step: ProcessSpec
    state: StepState
    batch: Batch

    @property
    def rows(self) -> SegmentList:
        return self.state.rows()

    def looks(self, clock: str) -> SegmentList:
        return self.state.rows(f"{clock} looks", within_key=None)

    def reached(self, clock: str) -> int:
        return self.batch.after if clock == "event" else self.batch.tick

    @property
    def _key(self) -> list[str]:
        return ["__hash", *self.step.keys]

    def touched(self) -> pl.DataFrame | None:
        """The keys that have events, or perhaps a timer that is due; each once, with a number."""
        parts = [] if self.batch.rows is None else [self.batch.rows.select(self._key)]
        for clock, low in zip(CLOCKS, (self.batch.before, self.batch.tick_before), strict=True):
            due = self.looks(clock).due(max(low, BEGINNING), self.reached(clock))
            parts += [] if due is None else [due.select(self._key)]
        if not parts:
            return None
        keys = pl.concat(parts).unique(maintain_order=True).with_row_index("__key")
        return keys.with_columns(__slot=pl.lit(0, pl.Int64))

    def load(self, keys: pl.DataFrame, columns: dict[str, pl.DataType]) -> pl.DataFrame:
        """A row per key in the order of the keys; `__known` tells those that were kept."""
        types = {**columns, **dict.fromkeys(LOOKS.values(), pl.Int64())}
        found = self.rows.lookup(keys)
        if found is None:
            missing = [pl.lit(None, type).alias(name) for name, type in types.items()]
            return keys.drop("__slot").with_columns(pl.lit(False).alias("__known"), *missing)
        found = found.select(*self._key, *types, pl.lit(True).alias("__known"))
        joined = keys.join(found, on=self._key, how="left", nulls_equal=True, maintain_order="left")
        known = pl.col("__known").fill_null(False)
        return joined.select("__key", *self._key, known, *types)

    def save(self, rows: pl.DataFrame | None, columns: dict[str, pl.DataType]) -> None:
        """Keeps rows with `__due` and `__due_tick` (null without a timer), and forgets those with
        `__dead`."""
        for clock in CLOCKS:
            fresh = None
            if rows is not None:
                rows = rows.with_columns(self._look(clock))
                fresh = rows.filter(~pl.col("__dead") & pl.col("__new")).select(
                    pl.lit(0, pl.Int64).alias("__slot"),
                    *self._key,
                    pl.col(LOOKS[clock]).alias("__until"),
                )
            self.looks(clock).append(
                None if fresh is None else fresh.sort("__hash"), self.reached(clock)
            )
        if rows is not None and rows.height:
            kept = rows.select(
                pl.lit(0, pl.Int64).alias("__slot"),
                *self._key,
                *columns,
                *LOOKS.values(),
                "__dead",
            )
            self.rows.append(kept.sort("__hash"), BEGINNING)

    def _look(self, clock: str) -> list[pl.Expr]:
        """When to look at keys again, and whether that has to be noted."""
        # what is due already was set too late in this batch: it fires in the next
        due = pl.max_horizontal(pl.col(DUE[clock]), pl.lit(self.reached(clock) + 1))
        due = pl.when(pl.col(DUE[clock]).is_not_null()).then(due)
        noted = pl.col(LOOKS[clock])
        noted = pl.when(noted > self.reached(clock)).then(noted)
        new = due.is_not_null() & (noted.is_null() | (due < noted))
        look = pl.when(new).then(due).otherwise(noted)
        return [look.alias(LOOKS[clock]), new.alias("__new")]

    def waiting(self) -> bool:
        """Whether a timer may be to come."""
        return any(self.looks(clock).last_time() > self.reached(clock) for clock in CLOCKS)
