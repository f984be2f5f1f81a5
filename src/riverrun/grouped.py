"""Rows with a group key, and perhaps a window: what `.group_by(…)` gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from riverrun.aggregate import Agg
from riverrun.arguments import checked
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import ProgramError, caller
from riverrun.kernels.letters import OnError
from riverrun.operators.aggregate import Emit, Window, aggregate, check_window
from riverrun.operators.rank import Ends, rank
from riverrun.operators.windows.all_time import AllTime
from riverrun.operators.windows.life import Life
from riverrun.operators.windows.of_finished import OfFinished
from riverrun.operators.windows_before import finished
from riverrun.own_aggregates import Aggregate
from riverrun.plan.building import checked_name, checked_policy, period, renamed, step_keys
from riverrun.plan.nodes import Node
from riverrun.plan.rows import changes

T = TypeVar("T")
"""What groups become: a table of the language."""


WHOLE = AllTime()


@dataclass(frozen=True)
@checked
class Grouped(Generic[T]):
    """Rows with a group key, and perhaps a window: one `.agg(…)` away from a table."""

    rows: Node
    keys: tuple[str, ...]
    name: str | None
    on_error: OnError
    as_table: Callable[[Node], T]
    per: Window = WHOLE
    updatable: int = 0
    emit: Emit = "changes"
    late_alert: float | None = None
    was: str | None = None
    keep: int | None = None

    def window(
        self,
        window: Window,
        *,
        updatable: Duration = "0 seconds",
        emit: Emit | None = None,
        late_alert: float | None = None,
    ) -> Grouped[T]:
        """Aggregate per window of event time.

        emit="ready": once when the window is ready, then a correction for each straggler that
        comes within `updatable`; "changes": at every batch; "final": once, when it closes.
        `late_alert=0.01` gives an alert when more than that share of rows is late.
        """
        at = caller()
        check_window(self.rows, window, late_alert, at)
        if self.keep is not None:
            raise ProgramError(
                "a window ends by itself: keep is for groups without one",
                where=at,
                got=f"keep={duration_text(self.keep)!r}",
                hint="leave keep out; `updatable` says how long a window is corrected",
            )
        if emit is None:
            emit = "ready" if window.closes else "changes"
        period = microseconds(updatable, at)
        return replace(self, per=window, updatable=period, emit=emit, late_alert=late_alert)

    def agg(self, **aggregates: Agg | Aggregate) -> T:
        """Compute aggregates: `agg(views=rr.count(), time=rr.avg("ms"))`."""
        at = caller()
        made = aggregate(
            self.rows, aggregates, keys=self.keys, name=self.name, window=self._window(),
            keep=self.keep if changes(self.rows) else None, updatable=self.updatable,
            emit=self.emit, late_alert=self.late_alert, on_error=self.on_error, at=at,
        )  # fmt: skip
        return self.as_table(renamed(made, self.was, at))

    def _window(self) -> Window:
        if changes(self.rows):
            window = finished(self.rows, self.keys)
            return self.per if window is None else OfFinished(window)
        return self.per if self.keep is None else Life(self.keep)

    def top(self, limit: int, *, by: str, place: str | None = None) -> T:
        """Of each group the rows with the highest values of `by`: `top(10, by="total")`.

        Of rows with the same value the one with the lower key is first. `place` names a column for
        the row's place, from 1 on.
        """
        return self._ranked(limit, by, place, descending=True)

    def bottom(self, limit: int, *, by: str, place: str | None = None) -> T:
        """Of each group the rows with the lowest values of `by`."""
        return self._ranked(limit, by, place, descending=False)

    def _ranked(self, limit: int, by: str, place: str | None, *, descending: bool) -> T:
        at = caller()
        if not changes(self.rows):
            raise ProgramError(
                "only the rows of a table can be ranked",
                where=at,
                hint="make one of the stream: .to_table(…), or an aggregate",
            )
        made = rank(
            self.rows, self.keys, limit=limit, by=by, descending=descending, place=place,
            ends=Ends(self.keep, finished(self.rows, self.keys)), name=self.name, at=at,
        )  # fmt: skip
        return self.as_table(renamed(made, self.was, at))


class Named(NamedTuple):
    """What a step is called, and was called before; and how long it keeps what it knows."""

    name: str | None
    was: str | None
    keep: Duration | None = None


def grouped(
    rows: Node,
    columns: tuple[str, ...],
    named: Named,
    on_error: OnError | None,
    as_table: Callable[[Node], T],
) -> Grouped[T]:
    at = caller()
    keys = step_keys("group_by", rows, columns, at)
    policy = checked_policy(on_error, rows, at)
    name = checked_name(named.name, at)
    kept = period("keep", named.keep, at)
    return Grouped(rows, keys, name, policy, as_table, was=named.was, keep=kept)
