"""What the kernels of steps have in common: a batch in, a result out, state in named lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from riverrun.durations import BEGINNING, END
from riverrun.errors import JobError
from riverrun.kernels.aggregates import results
from riverrun.kernels.letters import Verdict
from riverrun.kernels.state import SegmentList
from riverrun.program import Aggregating, Joining, Side, Step

PLACE = ("__at", "__pos", "__sub")
"""Canonical order: event time, the record's position, the row's place within the record."""


@dataclass(frozen=True)
class Batch:
    """Rows are judged by the clock as it stood `before` them; then time goes on to `after`."""

    rows: pl.DataFrame | None
    before: int
    after: int
    tick: int = 0
    tick_before: int = BEGINNING
    right: pl.DataFrame | None = None
    """The rows of a join's second input."""
    release_before: int = BEGINNING
    release: int = END
    """How far the table of a join is known: rows before that need not wait for it."""


@dataclass
class Result:
    changes: list[pl.DataFrame] = field(default_factory=list)
    late: pl.DataFrame | None = None
    late_right: pl.DataFrame | None = None
    streams: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    failed: Verdict = field(default_factory=Verdict)
    """Rows that could not be processed."""
    waiting: bool | None = None
    """Whether something is to come when time goes on; None: as the step's rows tell."""

    @property
    def late_parts(self) -> list[pl.DataFrame]:
        return [part for part in (self.late, self.late_right) if part is not None]


@dataclass
class StepState:
    """The lists of rows that a step keeps in a page, opened when they are needed."""

    keys: tuple[str, ...]
    load: Callable[[str, SegmentList], None]
    lists: dict[str, SegmentList] = field(default_factory=dict)

    def rows(self, name: str = "", within_key: tuple[str, ...] | None = ()) -> SegmentList:
        if name not in self.lists:
            self.lists[name] = SegmentList(self.keys, within_key=within_key)
            self.load(name, self.lists[name])
        return self.lists[name]

    def last_time(self) -> int:
        """When the last row that is kept ends."""
        kept = (rows.last_time() for rows in self.lists.values())
        return max(kept, default=BEGINNING)


def split_late(
    step: Step, rows: pl.DataFrame, before: int, side: Side = "left"
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Rows in time, and the late ones as they entered the step."""
    late = rows["__window"].to_numpy() <= step.last_closed(before)
    if not late.any():
        return rows, None
    mask = pl.Series(late)
    return rows.filter(~mask), as_entered(step, rows.filter(mask), side)


def as_entered(step: Step, rows: pl.DataFrame, side: Side = "left") -> pl.DataFrame:
    if isinstance(step, Joining):
        names = step.entered_left if side == "left" else step.entered_right
        return rows.select(*(pl.col(column).alias(name) for name, column in names), *PLACE)
    if not isinstance(step, Aggregating):
        return rows.drop("__window", "__hash")
    if "__row" not in rows.columns:
        raise JobError("rows are late that were read as if they could not be", where=step.name)
    return rows["__row"].struct.unnest()


def without_row(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop("__row") if "__row" in rows.columns else rows


def last_emitted(step: Aggregating, clock: int) -> int:
    """The latest window whose rows have been emitted at this clock."""
    window = step.window
    if step.emit == "changes":
        return END
    if window.kind == "all":
        return END if clock >= END else BEGINNING
    return window.last_complete(clock if step.emit == "ready" else clock - step.updatable)


def differing(was: pl.DataFrame, now: pl.DataFrame) -> pl.Series:
    """Whether rows side by side differ in any column."""
    differs = pl.Series([False]).new_from_index(0, was.height)
    for name in was.columns:
        differs = differs | was[name].ne_missing(now[name])
    return differs


def begins(keys: list[str]) -> pl.Expr:
    """Whether a row, of rows sorted by key, is the first one of its key."""
    other = (pl.col(name).ne_missing(pl.col(name).shift()) for name in keys)
    return pl.any_horizontal(*other) | (pl.int_range(pl.len()) == 0)


def event_name() -> pl.Expr:
    """One text for each row of a stream: its record, and its place in it if there are several."""
    within = pl.concat_str("__pos", pl.lit("-"), "__sub")
    return pl.when(pl.col("__sub") == 0).then(pl.col("__pos").cast(pl.String)).otherwise(within)


def seconds(step: Aggregating, start: pl.Expr, end: pl.Expr) -> pl.Expr | None:
    """The length of windows, for rates."""
    if step.window.kind == "all":
        return None
    return (instant(step, end) - instant(step, start)) / 1_000_000


def result_columns(step: Aggregating, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
    return results(step.aggregations, seconds(step, start, end))


def bounds(step: Aggregating, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
    """The columns window_start and window_end."""
    if step.window.kind == "all":
        return []
    return [
        instant(step, start).cast(pl.Datetime("us")).alias("window_start"),
        instant(step, end).cast(pl.Datetime("us")).alias("window_end"),
    ]


def instant(step: Aggregating, time: pl.Expr) -> pl.Expr:
    """Times of windows as instants: the same, unless the windows are those of a time zone."""
    if step.window.zone is None:
        return time
    return time.map_batches(
        lambda times: times.replace_strict(
            {each: step.window.utc(each) for each in times.unique().to_list()},
            return_dtype=pl.Int64,
        ),
        return_dtype=pl.Int64,
    )
