"""Processors of single events: key by key, events in their order, then the timers that are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.columns import PLACE
from riverrun.durations import END
from riverrun.errors import cause_of
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.operators.process.contexts import (
    RowContext,
    StateKind,
    Timers,
    event_place,
    moment,
    timer_letter,
    timer_place,
)
from riverrun.operators.process.keyed import CLOCKS, DUE, LOOKS, KeyedRows
from riverrun.operators.process.spec import ProcessSpec
from riverrun.processor import Event, Processor

PLACE_TYPES = {"__at": pl.Datetime("us"), "__pos": pl.Int64(), "__sub": pl.Int64()}
PLACE_ARROW = {"__at": pa.timestamp("us"), "__pos": pa.int64(), "__sub": pa.int64()}
TIMERS = pl.List(pl.Struct({"name": pl.String(), "at": pl.Int64(), "clock": pl.String()}))
ARROW_TIMERS = pa.list_(pa.struct({"name": pa.string(), "at": pa.int64(), "clock": pa.string()}))

AT_THE_END = 10
"""When the input has ended, so many timers of a key that timers set still fire: the rest would go
on for ever."""


@dataclass(frozen=True, kw_only=True)
class Process(ProcessSpec):
    kind = "process"

    def advance(self, state: StepState, batch: Batch) -> Result:
        kept = KeyedRows(self, state, batch)
        worker = Worker(self, kept)
        keys = kept.touched()
        saved = None
        if keys is not None:
            loaded = kept.load(keys, worker.columns)
            events = _by_key(self, keys, batch.rows)
            rows = [row for each in loaded.iter_rows() for row in worker.visit(each, events)]
            saved = worker.saved(loaded, rows)
        kept.save(saved, worker.columns)
        return worker.result()


def _by_key(
    step: ProcessSpec, keys: pl.DataFrame, rows: pl.DataFrame | None
) -> dict[int, list[tuple[Any, ...]]]:
    """Events by number of key, each in canonical order: rows of (at, pos, sub, instant, …)."""
    if rows is None:
        return {}
    on = ["__hash", *step.keys]
    numbered = rows.join(
        keys.select(*on, "__key"), on=on, how="left", nulls_equal=True, maintain_order="left"
    ).sort("__key", *PLACE)
    every = numbered.select(*PLACE, "__time", *step.columns).iter_rows()
    counts = numbered["__key"].rle().struct.unnest()
    return {key: list(islice(every, length)) for length, key in counts.iter_rows()}


class Worker:
    """Runs a processor's handlers in one batch and page."""

    def __init__(self, step: ProcessSpec, kept: KeyedRows) -> None:
        assert isinstance(step.processor, Processor)
        self.step, self.kept, self.batch = step, kept, kept.batch
        self.processor = step.processor
        handles_timers = type(step.processor).on_timer is not Processor.on_timer
        self.context = RowContext(step, kept.batch, handles_timers)
        self.kind = StateKind(step)
        self.columns: dict[str, pl.DataType] = {**self.kind.columns.types, "__timers": TIMERS}
        self.failures: list[Failure] = []

    def visit(
        self, loaded: tuple[Any, ...], events: dict[int, list[tuple[Any, ...]]]
    ) -> Iterator[tuple[Any, ...]]:
        """Takes a key through the batch; gives its number, its values and its timers if they
        changed, or if its timers are to be looked at again."""
        number, hashed, *rest = loaded
        size = len(self.step.keys)
        keys, (known, *values), looks = rest[:size], rest[size:-3], rest[-2:]
        timers = {each["name"]: (each["at"], each["clock"]) for each in rest[-3] or ()}
        before = tuple(values) if known else self.kind.defaults
        state = self.kind.new(before)
        context = self.context
        context.key, context.timers = dict(zip(self.step.keys, keys, strict=True)), timers
        for event in events.get(number, ()):
            self._event(state, event)
        self._fire(state, hashed)
        after = self.kind.values(state)
        passed = self._passed(looks)
        if after == before and context.timers == timers and not passed:
            return
        forgotten = after == self.kind.defaults and not context.timers
        if known or not forgotten:
            yield number, after, context.timers, forgotten

    def _passed(self, looks: list[int | None]) -> bool:
        """Whether a time has come to look at the key, so that the next has to be noted."""
        return any(
            look is not None and look <= self.kept.reached(clock)
            for clock, look in zip(CLOCKS, looks, strict=True)
        )

    def _event(self, state: Any, row: tuple[Any, ...]) -> None:
        at, pos, sub, instant, *values = row
        event = dict(zip(self.step.columns, values, strict=True))
        context = self.context
        context.time, context.late = at, instant < self.batch.before
        context.place = event_place(pos, sub)
        error = self._call(state, lambda: self.processor.on_event(Event(event), state, context))
        if error is not None:
            self._set_aside(error, Place(at, pos, sub), event)

    def _fire(self, state: Any, hashed: int) -> None:
        """Timers that their clock has reached, in order of time."""
        context = self.context
        context.late = False
        for clock in CLOCKS:
            left = len(context.timers) + AT_THE_END
            while (name := _next(context.timers, clock, self.kept.reached(clock))) is not None:
                if self.kept.reached(clock) >= END and left == 0:
                    break
                left -= 1
                self._timer(state, hashed, name)
        context.firing = None

    def _timer(self, state: Any, hashed: int, name: str) -> None:
        context = self.context
        due = context.firing = context.timers[name]
        context.cancel(name)
        context.time, context.place = moment(due[0]), timer_place(hashed, name, due)
        place = context.place
        error = self._call(state, lambda: self.processor.on_timer(name, state, context))
        if error is not None:
            self._set_aside(error, *timer_letter(name, moment(due[0]), place))

    def _call(self, state: Any, handler: Callable[[], None]) -> Exception | None:
        """Calls the handler; if it fails, all that it did is taken back."""
        mark, before = self.context.mark(), self.kind.snapshot(state)
        try:
            handler()
            self.kind.check(state, before)
        except Exception as error:
            self.context.undo(mark)
            self.kind.restore(state, before)
            return error
        return None

    def _set_aside(self, error: Exception, place: Place, value: dict[str, Any]) -> None:
        step, key = self.step, self.context.key
        cause, row = cause_of(error), {**key, **value}
        self.failures.append(Failure(place, step.name, cause, step.on_error, key, row))

    def saved(self, loaded: pl.DataFrame, rows: list[tuple[Any, ...]]) -> pl.DataFrame | None:
        """The keys that changed, as they are kept."""
        if not rows:
            return None
        numbers, values, timers, dead = zip(*rows, strict=True)
        listed = [_listed(each) if each else None for each in timers]
        due = {
            DUE[clock]: [
                min((at for at, other in t.values() if other == clock), default=None)
                for t in timers
            ]
            for clock in CLOCKS
        }
        keys = loaded[list(numbers)].select("__hash", *self.step.keys, *LOOKS.values())
        return keys.with_columns(
            *(self.kind.columns.frame(values).get_columns() if self.kind.columns.names else ()),
            # by Arrow: Polars builds structs from Python values fifty times slower
            pl.Series("__timers", pa.array(listed, ARROW_TIMERS), TIMERS),
            *(pl.Series(name, times, pl.Int64) for name, times in due.items()),
            pl.Series("__dead", dead, pl.Boolean),
        )

    def result(self) -> Result:
        streams = {}
        for name, rows in self.context.emitted.items():
            if rows:
                columns = self.context.outputs[name].with_columns(PLACE_TYPES, PLACE_ARROW)
                streams[name] = [columns.frame(rows).sort(PLACE)]
        return Result(
            streams=streams,
            failed=judge(self.failures, self.batch.topics),
            waiting=self.kept.waiting(),
        )


def _listed(timers: Timers) -> list[dict[str, Any]]:
    return [{"name": name, "at": at, "clock": clock} for name, (at, clock) in timers.items()]


def _next(timers: Timers, clock: str, reached: int) -> str | None:
    due = [(at, name) for name, (at, other) in timers.items() if other == clock and at <= reached]
    return min(due)[1] if due else None
