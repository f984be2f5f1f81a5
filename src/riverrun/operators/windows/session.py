"""Sessions: rows of a key with no gap between them. A straggler may join two.

State is one row per session. Sessions that grow into another are marked dead, so that the rows of
a key in newer segments always tell the whole truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.arguments import checked
from riverrun.durations import BEGINNING, Duration
from riverrun.errors import caller
from riverrun.kernels.aggregates import merged, settled
from riverrun.kernels.changes import begins, differing
from riverrun.kernels.operator import Batch, Entry, Result, StepState
from riverrun.kernels.program import CLOSED
from riverrun.kernels.state import SegmentList
from riverrun.operators.aggregate import Aggregate, StandingWindows, without_row
from riverrun.operators.windows import entry
from riverrun.operators.windows.grid import RowWindow, length

START, END_OF = pl.col("__start"), pl.col("__until")


@dataclass(frozen=True)
class Session(RowWindow):
    kind = "session"

    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        late = f"CASE WHEN __time <= {CLOSED} THEN {entry.packed_row(step)} END"
        return Entry(entry.singles(step, rows, row=late), entry.singles(step, rows))

    def last_complete(self, instant: int) -> int:
        """Sessions that end up to here have been emitted."""
        return instant

    def emitted(self, instant: int) -> int:
        return instant

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        return _advance(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return _standing


@checked
def session(gap: Duration) -> Session:
    """Rows with less than `gap` between them: `session("30 minutes")`."""
    return Session(length("a gap", gap, caller()))


Step = Aggregate[Session]


def _advance(step: Step, state: StepState, batch: Batch) -> Result:
    """`__until` is the end of a session: its last row's time and the gap."""
    result = Result()
    sessions = state.rows(within_key=("__start",))
    if batch.rows is not None:
        _join(step, sessions, batch, result)
    result.changes += _fire(step, sessions, batch)
    # a closed session is known for as long as a row in time could touch it
    sessions.append(None, batch.after - step.updatable - step.window.size)
    return result


def _standing(step: Step, state: StepState, clock: int) -> pl.DataFrame | None:
    rows = state.rows(within_key=("__start",)).standing()
    return None if rows is None else _changes(step, rows.filter(clock - step.updatable < END_OF), 1)


def _join(step: Step, sessions: SegmentList, batch: Batch, result: Result) -> None:
    """Joins new rows and the sessions they touch."""
    assert batch.rows is not None
    closed = batch.before - step.updatable
    time = pl.col("__time")
    new = batch.rows.with_columns(
        __slot=pl.lit(0, pl.Int64),
        __start=time,
        __until=time + step.window.size,
        __dead=pl.lit(False),
    ).drop("__time")
    old = sessions.lookup(new)
    new, result.late = _split_late(step, old, new, closed)
    if not new.height:
        return
    numbered = _numbered(step, None if old is None else old.filter(closed < END_OF), new)
    joined = _joined(step, numbered)
    emitted = _last_emitted(step, batch.before)
    changed, gone = _changed(step, numbered, joined, emitted, result)
    rows = changed if gone is None else pl.concat([changed, gone.select(changed.columns)])
    sessions.append(rows.sort("__slot", "__hash"), closed - step.window.size)


def _split_late(
    step: Step, old: pl.DataFrame | None, new: pl.DataFrame, closed: int
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """A row is late if it touches a session that has closed, or if its own would have closed and
    it is not inside one that is open."""
    if new["__start"].min() >= closed:  # type: ignore[operator]
        return without_row(new), {}
    late = closed >= END_OF
    new = new.with_row_index("__number")
    if old is not None:
        key, number, at = ["__hash", *step.keys], pl.col("__number"), pl.col("__at")
        pairs = new.select("__number", *key, START.alias("__at")).join(
            old.select(*key, "__start", "__until"), on=key, nulls_equal=True
        )
        touching = (at < END_OF) & (at + step.window.size > START)
        inside = pairs.filter((closed < END_OF) & (at >= START) & (at < END_OF))["__number"]
        touched = pairs.filter((closed >= END_OF) & touching)["__number"]
        late = (late & ~number.is_in(inside.implode())) | number.is_in(touched.implode())
    new = new.with_columns(late.alias("__late")).drop("__number")
    found = new.filter("__late").drop("__late")
    timely = without_row(new.filter(~pl.col("__late")).drop("__late"))
    return timely, {"": step.as_entered(found)} if found.height else {}


def _numbered(step: Step, old: pl.DataFrame | None, new: pl.DataFrame) -> pl.DataFrame:
    """New rows and the old sessions they touch, with the number of the session each is part of."""
    new = new.with_columns(__old=pl.lit(False))
    if old is not None:
        new = pl.concat([old.with_columns(__old=pl.lit(True)), new], how="diagonal")
    key = ["__hash", *step.keys]
    rows = new.sort(*key, "__start")
    reached = END_OF.cum_max().over(key).shift()
    rows = rows.with_columns(__session=(begins(key) | (reached <= START)).cum_sum())
    return rows if old is None else rows.filter((~pl.col("__old")).any().over("__session"))


def _joined(step: Step, rows: pl.DataFrame) -> pl.DataFrame:
    joined = rows.group_by("__session", maintain_order=True).agg(
        *(pl.col(name).first() for name in ("__slot", "__hash", *step.keys)),
        START.min(),
        END_OF.max(),
        *merged(step.aggregations),
        pl.col("__revision").filter("__old").max().fill_null(0),
        pl.lit(False).first().alias("__dead"),
    )
    return settled(joined, step.aggregations)


def _changed(
    step: Step, rows: pl.DataFrame, joined: pl.DataFrame, emitted: int, result: Result
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The sessions as they are now, and the old ones that are no more. What had been emitted is
    taken back; the session that stands in its place has the next revision."""
    columns = [name for name in rows.columns if name not in ("__session", "__old")]
    old = rows.filter("__old")
    shown_before = old.filter(emitted >= END_OF)
    taken_back = shown_before
    if shown_before.height:
        taken_back = shown_before.filter(~_same(step, shown_before, joined))
    again = joined["__session"].is_in(taken_back["__session"].implode())
    unchanged = joined["__session"].is_in(shown_before["__session"].implode()) & ~again
    joined = joined.with_columns(__revision=pl.col("__revision") + again.cast(pl.Int64))
    shown = joined.filter((emitted >= END_OF) & ~unchanged)
    if taken_back.height:
        result.changes.append(_changes(step, taken_back, -1))
    if shown.height:
        result.changes.append(_changes(step, shown, 1))
    if not old.height:
        return joined.select(columns), None
    standing = joined.select("__session", pl.col("__start").alias("__now"))
    gone = old.join(standing, on="__session", how="left").filter(pl.col("__now") != START)
    return joined.select(columns), gone.with_columns(__dead=pl.lit(True)) if gone.height else None


def _same(step: Step, old: pl.DataFrame, joined: pl.DataFrame) -> pl.Series:
    """Whether a session that was emitted still has its bounds and results."""
    now = old.select("__session").join(joined, on="__session", how="left", maintain_order="left")
    columns = [START, END_OF, *step.results(START, END_OF)]
    return ~differing(old.select(columns), now.select(columns))


def _last_emitted(step: Step, clock: int) -> int:
    # an open session may end after the end of all input, by its gap
    return step.last_emitted(clock) + (step.window.size if step.emit == "changes" else 0)


def _fire(step: Step, sessions: SegmentList, batch: Batch) -> list[pl.DataFrame]:
    low, high = _last_emitted(step, batch.before), _last_emitted(step, batch.after)
    if high <= low:
        return []
    rows = sessions.due(max(low, BEGINNING), high)
    return [] if rows is None or not rows.height else [_changes(step, rows, 1)]


def _changes(step: Step, rows: pl.DataFrame, op: int) -> pl.DataFrame:
    return rows.select(
        *(pl.col(key) for key in step.keys),
        *step.window.bounds(START, END_OF),
        *step.results(START, END_OF),
        pl.lit(op, pl.Int8).alias("__op"),
        pl.col("__revision"),
    )
