"""Aggregates per key and window: what `.group_by(…).window(…).agg(…)` makes.

A kind of window is a class of its own, in `operators/windows/`, with all that is known of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import polars as pl

from riverrun.aggregate import Agg
from riverrun.aggregation import aggregation, is_number, refuse_clash, result_columns
from riverrun.columns import RowForm
from riverrun.durations import END, duration_text
from riverrun.errors import JobError, Location, ProgramError
from riverrun.kernels.aggregates import prepared, results
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Input,
    Leaving,
    Operator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.own_aggregates import Own, errors_of
from riverrun.kernels.parts import Aggregation
from riverrun.kernels.younger import fitted
from riverrun.operators.aggregate_words import aggregate_data, call_text
from riverrun.operators.keep import keeping
from riverrun.own_aggregates import Aggregate as OwnAggregate
from riverrun.plan.building import origin_name
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import changes
from riverrun.schema import Column, Schema

Emit = Literal["changes", "ready", "final"]


@dataclass(frozen=True)
class Window(ABC):
    """Which rows of a key belong together. Lengths are in microseconds.

    A slot of state is a piece of time that results are made of; an instant is a moment of event
    time, the clock less what the step waits for stragglers.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def text(self) -> str | None:
        """For people; None for the window that never ends."""

    @property
    def kept(self) -> str:
        """How long one without an end is kept, for people."""
        return "for ever"

    @property
    @abstractmethod
    def suffix(self) -> str:
        """What it adds to the name of a step."""

    @abstractmethod
    def columns(self, rows: Schema, keys: tuple[str, ...]) -> tuple[Column, ...]:
        """The columns of a result that come before the aggregates."""

    @abstractmethod
    def key(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that tell results apart."""

    @abstractmethod
    def enter(self, step: Aggregate[Any], rows: str) -> Entry:
        """How rows get into the step."""

    @abstractmethod
    def last_complete(self, instant: int) -> int:
        """The last slot of which all results are complete at the instant."""

    def emitted(self, instant: int) -> int:
        """Rows of state up to this time have given their results; some are kept for late rows."""
        return self.done(instant)

    @abstractmethod
    def last_closed(self, instant: int) -> int:
        """The last slot for which rows are late at the instant."""

    @abstractmethod
    def done(self, instant: int) -> int:
        """Rows of state up to this time have nothing more to come of them."""

    @abstractmethod
    def bounds(self, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
        """The columns window_start and window_end."""

    @abstractmethod
    def seconds(self, start: pl.Expr, end: pl.Expr) -> pl.Expr | None:
        """The length of windows, for rates."""

    @abstractmethod
    def compared(self) -> int | None:
        """How often a window begins; None if results cannot be compared with earlier ones."""

    @abstractmethod
    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        """The kernel."""

    @property
    def standing(self) -> StandingWindows | None:
        """The results of windows not closed at a clock, emitted or not; None if nobody can ask."""
        return None

    @property
    def closes(self) -> bool:
        return self.text is not None

    @property
    def ends(self) -> bool:
        """Whether rows of state go by themselves."""
        return self.closes

    @property
    def leaves_rows(self) -> bool:
        """Whether results stay when the rows of state go."""
        return self.closes

    @property
    def late(self) -> bool:
        """Whether rows can be late."""
        return self.closes

    def frozen(self) -> dict[str, Any]:
        """What state depends on, beside the kind."""
        return asdict(self)

    def settings(self) -> dict[str, Any]:
        """What may change while state stays."""
        return {}

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state as they were kept under other settings, as they are kept now."""
        return rows


StandingWindows = Callable[[Any, StepState, int], pl.DataFrame | None]
"""The step, what it keeps, and the clock: see `Operator.standing`."""
W_co = TypeVar("W_co", bound=Window, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Aggregate(Operator, Generic[W_co]):
    window: W_co
    updatable: int
    emit: Emit
    aggregations: tuple[Aggregation, ...]
    columns: tuple[str, ...]
    """Of the rows that enter."""
    signed: bool
    """Whether they are changes of a table, that add and take away."""
    late_alert: float | None

    kind = "aggregate"

    @property
    def inputs(self) -> tuple[Input, ...]:
        takes: RowForm = "changes" if self.signed else "facts"
        return (Input(takes=takes, late=self.window.late, late_alert=self.late_alert),)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=self.window.key(self.keys))

    def enter(self, number: int, rows: str) -> Entry:
        return replace(self.window.enter(self, rows), patience=self.updatable)

    def key_words(self) -> list[str]:
        return list(self.keys)

    def words(self) -> Words:
        calls = [(each.name, call_text(each)) for each in self.aggregations]
        typed = [(each.name, f"{call_text(each)}: {each.type}") for each in self.aggregations]
        per = [f"per {self._window_words()}"] if self.window.closes else []
        return Words(
            [("window", self._window_words()), ("emit", self.emit), *typed],
            [*per, *(f"{name} = {text}" for name, text in calls)],
            {
                "window": self.window.text,
                "updatable": duration_text(self.updatable) if self.window.closes else None,
                "emit": self.emit,
                "aggregates": [aggregate_data(each) for each in self.aggregations],
            },
        )

    def _window_words(self) -> str:
        if not self.window.closes:
            return f"none: one row per key, {self.window.kept}"
        alert = "" if self.late_alert is None else f", late_alert {self.late_alert:g}"
        return f"{self.window.text}, updatable {duration_text(self.updatable)}{alert}"

    def frozen(self) -> dict[str, Any]:
        return {
            "window": {"kind": self.window.kind, **self.window.frozen()},
            "aggregates": [each.frozen for each in self.aggregations],
        }

    def settings(self) -> dict[str, Any]:
        emitted = {"emit": self.emit, "updatable": self.updatable, "late_alert": self.late_alert}
        return emitted | self.window.settings()

    def last_closed(self, clock: int) -> int:
        return self.window.last_closed(clock - self.updatable)

    def done(self, clock: int) -> int:
        return self.window.done(clock - self.updatable)

    @property
    def holds(self) -> bool:
        return self.emit != "changes"

    def closes(self, last: int) -> int:
        """What is corrected later has been given all the same."""
        done = last + bisect_left(range(END), last, key=lambda d: self.window.emitted(last + d))
        return done + (self.updatable if self.emit == "final" else 0)

    def prepared(self, rows: pl.DataFrame) -> pl.DataFrame:
        return prepared(rows, self.aggregations)

    def advance(self, state: StepState, batch: Batch) -> Result:
        with errors_of(self._own):
            return self.window.advance(self, state, batch)

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self.window.fitted(fitted(rows, self.aggregations))

    def grows(self, tables: list[str]) -> str | None:
        if self.window.ends:
            return None
        return super().grows(tables) if self.signed else f"a row of every {', '.join(self.keys)}"

    def leaves_rows(self) -> bool:
        return self.window.leaves_rows

    @property
    def standing(self) -> Standing | None:
        return None if self.window.standing is None else self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        assert self.window.standing is not None
        with errors_of(self._own):
            return self.window.standing(self, state, clock)

    @property
    def wakes_with_tick(self) -> bool:
        return False

    def owned(self) -> list[object]:
        aggregates = [each.own.does for each in self.aggregations if each.own is not None]
        return [self.window, *aggregates]

    @property
    def fails_on(self) -> str | None:
        return None

    @property
    def functions(self) -> tuple[Function, ...]:
        return () if self.signed else tuple(each.function for each in self._own)

    @property
    def _own(self) -> list[Own]:
        return [each.own for each in self.aggregations if each.own is not None]

    def versions(self, rows: str) -> str | None:
        return None

    def last_emitted(self, clock: int) -> int:
        """The latest slot whose results have been emitted at this clock."""
        if self.emit == "changes":
            return END
        return self.window.last_complete(clock if self.emit == "ready" else clock - self.updatable)

    def results(self, start: pl.Expr, end: pl.Expr) -> list[pl.Expr]:
        """The result columns of windows from start to end, from parts."""
        return results(self.aggregations, self.window.seconds(start, end))

    def as_entered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Late rows, which travel whole: `enter` sees to it."""
        if "__row" not in rows.columns:
            raise JobError("rows are late that were read as if they could not be", where=self.name)
        return rows["__row"].struct.unnest()


def without_row(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in time are not needed whole."""
    if "__row" in rows.columns:
        rows = rows.clone()
        rows.drop_in_place("__row")  # `drop` is a query
    return rows


def aggregate(
    rows: Node,
    aggregates: Mapping[str, Agg | OwnAggregate],
    *,
    keys: tuple[str, ...],
    name: str | None,
    window: Window,
    keep: int | None,
    updatable: int,
    emit: Emit,
    late_alert: float | None,
    on_error: OnError,
    at: Location,
) -> Step:
    if not aggregates:
        raise ProgramError("agg needs at least one aggregate", where=at)
    signed, schema = changes(rows), rows.schema
    step = name or f"{origin_name(rows)}_by_{'_'.join(keys)}{window.suffix}"
    made = tuple(
        aggregation(each, agg, schema, at, step=step, signed=signed, windowed=window.closes)
        for each, agg in aggregates.items()
    )
    _check_comparisons(window, made, emit, at)
    columns = window.columns(schema, keys) + tuple(c for a in made for c in result_columns(a))
    refuse_clash(columns, at)
    does = Aggregate(
        name=step,
        keys=keys,
        key_types=tuple(map(schema.type_of, keys)),
        schema=Schema(columns),
        at=at,
        on_error=on_error,
        window=window,
        updatable=updatable,
        emit=emit,
        aggregations=made,
        columns=schema.visible.names,
        signed=signed,
        late_alert=late_alert,
    )
    return Step((keeping(rows, keep, f"{step}_kept", at),), does)


def check_window(rows: Node, window: object, late_alert: object, at: Location) -> None:
    if not isinstance(window, Window):
        raise ProgramError(
            "window() needs a window", where=at, got=repr(window), hint='rr.tumbling("1 minute")'
        )
    if changes(rows):
        raise ProgramError(
            "rows of a table have no window",
            where=at,
            hint="group by window_start, or by a column computed from it",
        )
    share = late_alert if isinstance(late_alert, int | float) else -1
    if late_alert is not None and not 0 <= share < 1:
        raise ProgramError(
            "late_alert is a share from 0 to below 1", where=at, got=repr(late_alert)
        )


def _check_comparisons(
    window: Window, made: tuple[Aggregation, ...], emit: Emit, at: Location
) -> None:
    every = window.compared()
    for each in made:
        if not each.compared_to:
            continue
        if every is None:
            raise ProgramError(
                "only tumbling and hopping windows can be compared with earlier ones",
                where=at,
                got=f"{each.name}: {window.kind}",
            )
        if each.compared_to % every:
            raise ProgramError(
                f"{each.name!r} is compared with a moment at which no window begins",
                where=at,
                got=f"{duration_text(each.compared_to)}, windows every {duration_text(every)}",
            )
        if each.falls and emit == "changes":
            raise ProgramError(
                f"{each.name!r} has no row of windows that are not over",
                where=at,
                got='falls=True, emit="changes"',
                hint='emit="ready", or "final"',
            )
        if not is_number(each.type):
            raise ProgramError(
                f"{each.name!r} cannot be compared: it is no number", where=at, got=each.type
            )
