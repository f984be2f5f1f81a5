"""Processors over frames: all events of a batch and page in one call.

When a call fails it is repeated on halves, down to the event or timer that makes it fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from riverrun.columns import PLACE
from riverrun.durations import END
from riverrun.errors import cause_of
from riverrun.kernels.chunks import with_hash
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.kernels.typed import columns_of
from riverrun.operators.process.contexts import (
    clock_before,
    event_place,
    moment,
    timer_letter,
    timer_place,
)
from riverrun.operators.process.keyed import LOOKS, KeyedRows
from riverrun.operators.process.rows import AT_THE_END, PLACE_TYPES
from riverrun.operators.process.spec import ProcessSpec
from riverrun.processor import FrameProcessor

TIMER = pl.col("timer")
Made = Mapping[str, pl.DataFrame]


@dataclass
class Times:
    """What handlers are told of time."""

    clock: datetime | None
    now: datetime


@dataclass(frozen=True, kw_only=True)
class ProcessFrames(ProcessSpec):
    kind = "process frames"

    def advance(self, state: StepState, batch: Batch) -> Result:
        kept = KeyedRows(self, state, batch)
        worker = FrameWorker(self, kept)
        keys = kept.touched()
        saved = None
        if keys is not None:
            rows = worker.standing(kept.load(keys, worker.state.types))
            if batch.rows is not None:
                rows = worker.updated(rows, worker.on_frame(batch.rows.sort(PLACE), rows))
            if worker.has_timer:
                rows = worker.fired(rows)
            saved = worker.saved(rows)
        kept.save(saved, worker.state.types)
        return worker.result()


class FrameWorker:
    """Runs a processor's handlers in one batch and page.

    State has all keys that the batch touches; `__alive` tells those that are kept.
    """

    def __init__(self, step: ProcessSpec, kept: KeyedRows) -> None:
        assert isinstance(step.processor, FrameProcessor)
        self.step, self.kept, self.processor = step, kept, step.processor
        self.times = Times(clock_before(kept.batch), moment(kept.batch.tick))
        self.state = columns_of(step.state)
        self.outputs = {name: columns_of(schema) for name, schema in step.outputs}
        self.defaults = self.state.frame([step.defaults]) if self.state.names else pl.DataFrame()
        self.has_timer = "timer" in self.state.names
        self.made: dict[str, list[pl.DataFrame]] = {name: [] for name in self.outputs}
        self.failures: list[Failure] = []

    @property
    def shown(self) -> list[str]:
        return [*self.step.keys, *self.state.names]

    def standing(self, loaded: pl.DataFrame) -> pl.DataFrame:
        return self._with_defaults(loaded.with_columns(__alive=pl.col("__known")))

    def _with_defaults(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keys that are not alive are as if they were new."""
        alive = pl.col("__alive")
        return rows.with_columns(
            pl.when(alive).then(pl.col(name)).otherwise(pl.lit(self.defaults[name])).alias(name)
            for name in self.state.names
        )

    def updated(self, rows: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        others = rows.join(new.select("__key"), on="__key", how="anti")
        return pl.concat([others, new.select(rows.columns)]).sort("__key")

    def on_frame(self, events: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """The state after the events, of their keys."""
        rows = self._of(events, rows)
        given = events.select(*self.step.columns, *PLACE)
        try:
            made = self.processor.on_frame(given, rows.select(self.shown), self.times)
            place = event_place(given["__pos"].min(), given["__sub"].min())  # type: ignore[arg-type]
            return self._accept(made, rows, place)
        except Exception as error:
            if events.height == 1:
                self._event_aside(error, given.row(0, named=True))
                return rows
        if rows.height > 1:
            return pl.concat(self.on_frame(self._of(half, events), half) for half in _halves(rows))
        first, second = _halves(events)
        return self.on_frame(second, self.on_frame(first, rows))

    def _of(self, rows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        on = ["__hash", *self.step.keys]
        return events.join(
            rows.select(on), on=on, how="semi", nulls_equal=True, maintain_order="left"
        )

    def fired(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The state after all timers that the clock has reached."""
        reached, rounds = self.kept.reached("event"), 0
        while reached < END or rounds <= AT_THE_END:
            due = rows.filter(pl.col("__alive") & (TIMER.dt.epoch("us") <= reached)).sort("__key")
            if not due.height:
                break
            new = self._on_timers(due).sort("__key")
            later = new["timer"] > due["timer"]
            rows = self.updated(rows, new.with_columns(pl.when(later).then(TIMER)))
            rounds += 1
        return rows

    def _on_timers(self, due: pl.DataFrame) -> pl.DataFrame:
        first = due["timer"].min()
        assert isinstance(first, datetime)
        place = timer_place(int(due["__hash"].min()), "timer", (0, first.isoformat()))  # type: ignore[arg-type]
        try:
            made = self.processor.on_timers(due.select(self.shown), self.times)
            return self._accept(made, due, place)
        except Exception as error:
            if due.height == 1:
                key = due.select(self.step.keys).row(0, named=True)
                self._set_aside(error, key, *timer_letter("timer", first, place))
                return due
        return pl.concat(map(self._on_timers, _halves(due)))

    def _accept(self, made: Made, rows: pl.DataFrame, place: tuple[int, int]) -> pl.DataFrame:
        """What a handler returned, checked before any of it counts."""
        if not isinstance(made, Mapping):
            raise TypeError(f"frames by name are to be returned, not {made!r:.100}")
        unknown = [name for name in made if name not in self.outputs and name != "state"]
        if unknown:
            names = ", ".join(self.outputs)
            raise ValueError(f"there is no output {unknown[0]!r}; there is {names}, and 'state'")
        found = {n: self._output(n, made[n], place) for n in self.outputs if n in made}
        rows = self._state(made["state"], rows) if "state" in made else rows
        for name, frame in found.items():
            self.made[name].append(frame)
        return rows

    def _output(self, name: str, frame: pl.DataFrame, place: tuple[int, int]) -> pl.DataFrame:
        types = {**self.outputs[name].types, **PLACE_TYPES}
        pos, sub = place
        if "__pos" not in frame.columns:
            frame = frame.with_columns(__pos=pl.lit(pos))
        elif "__sub" in frame.columns:
            frame = frame.with_columns(__sub=pl.col("__sub") * 2**16 % END)
        if "__sub" not in frame.columns:
            frame = frame.with_columns(__sub=sub + pl.int_range(pl.len()))
        return _typed(frame, types, f"output {name!r}")

    def _state(self, new: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        keys = {name: rows.schema[name] for name in self.step.keys}
        new = with_hash(_typed(new, {**keys, **self.state.types}, "state"), self.step.keys)
        hidden = rows.drop(self.state.names, "__alive")
        # not by the key alone: Polars finds no NaN by it
        on = ["__hash", *self.step.keys]
        if new.select(on).is_duplicated().any():
            raise ValueError("state has a key twice")
        if new.join(hidden, on=on, how="anti", nulls_equal=True).height:
            raise ValueError("state has a key that was not given")
        new = new.with_columns(__alive=pl.lit(True))
        joined = hidden.join(new, on=on, how="left", nulls_equal=True, maintain_order="left")
        joined = joined.with_columns(pl.col("__alive").fill_null(False))
        return self._with_defaults(joined).select(rows.columns)

    def _event_aside(self, error: Exception, event: dict[str, Any]) -> None:
        place = Place(*(event.pop(name) for name in PLACE))
        self._set_aside(error, {key: event[key] for key in self.step.keys}, place, event)

    def _set_aside(
        self, error: Exception, key: dict[str, Any], place: Place, value: dict[str, Any]
    ) -> None:
        step, cause = self.step, cause_of(error)
        row = {**key, **value}
        self.failures.append(Failure(place, step.name, cause, step.on_error, key, row))

    def saved(self, rows: pl.DataFrame) -> pl.DataFrame:
        alive = pl.col("__alive")
        due = TIMER.dt.epoch("us") if self.has_timer else pl.lit(None, pl.Int64)
        return rows.filter(alive | pl.col("__known")).select(
            "__hash",
            *self.shown,
            *LOOKS.values(),
            due.alias("__due"),
            pl.lit(None, pl.Int64).alias("__due_tick"),
            (~alive).alias("__dead"),
        )

    def result(self) -> Result:
        return Result(
            streams={name: [pl.concat(p).sort(PLACE)] for name, p in self.made.items() if p},
            failed=judge(self.failures, self.kept.batch.topics),
            waiting=self.kept.waiting(),
        )


def _halves(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    middle = rows.height // 2
    return rows[:middle], rows[middle:]


def _typed(frame: pl.DataFrame, types: dict[str, Any], what: str) -> pl.DataFrame:
    """The columns wanted, in their types; a value that does not fit is an error."""
    if not isinstance(frame, pl.DataFrame):
        raise TypeError(f"{what} is a Polars frame, not {type(frame).__name__}")
    for name in types:
        if name not in frame.columns:
            hint = ": the time of each row" if name == "__at" else ""
            raise TypeError(f"{what} needs the column {name!r}{hint}")
    unknown = [each for each in frame.columns if each not in types and not each.startswith("__")]
    if unknown:
        raise TypeError(f"{what} has no column {unknown[0]!r}; it has {', '.join(types)}")
    return frame.select(pl.col(name).cast(type) for name, type in types.items())
