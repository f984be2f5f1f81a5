"""What handlers of a processor are given: the state of a key, time, timers, and outputs."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any

from riverrun.durations import BEGINNING, END
from riverrun.kernels.letters import Place
from riverrun.kernels.operator import Batch
from riverrun.kernels.typed import Columns, columns_of, naive
from riverrun.operators.process.spec import ProcessSpec
from riverrun.processor import TimerClock

EPOCH = datetime(1970, 1, 1)
DAY, SECOND = 86_400_000_000, 1_000_000

SPREAD = 1 << 16
"""Rows that one event emits are told apart by their place within it."""

Timers = dict[str, tuple[int, TimerClock]]
"""By name: when, and by which clock."""


def instant(moment: datetime) -> int:
    passed = moment - EPOCH
    return passed.days * DAY + passed.seconds * SECOND + passed.microseconds


def moment(instant: int) -> datetime:
    return EPOCH + timedelta(microseconds=instant)


def clock_before(batch: Batch) -> datetime | None:
    if batch.before <= BEGINNING:
        return None
    return datetime.max if batch.before >= END else moment(batch.before)


class KeyState:
    """The base of a class with a slot per column of state."""

    __slots__: tuple[str, ...] = ()
    _defaults: tuple[Any, ...]

    def clear(self) -> None:
        for name, value in zip(self.__slots__, self._defaults, strict=True):
            setattr(self, name, copy.deepcopy(value))


class StateKind:
    """How the state of a step is read, checked, and put back."""

    def __init__(self, step: ProcessSpec) -> None:
        self.columns = columns_of(step.state)
        names, self.defaults = self.columns.names, step.defaults
        parts = {"__slots__": names, "_defaults": step.defaults}
        self.kind: type[Any] = type("State", (KeyState,), parts)
        self.values = _reader(names)
        self.nested = any(self.columns.nested)

    def new(self, values: tuple[Any, ...]) -> Any:
        state = self.kind()
        self.restore(state, copy.deepcopy(values) if self.nested else values)
        return state

    def restore(self, state: Any, values: tuple[Any, ...]) -> None:
        for name, value in zip(self.columns.names, values, strict=True):
            setattr(state, name, value)

    def snapshot(self, state: Any) -> tuple[Any, ...]:
        values = self.values(state)
        return copy.deepcopy(values) if self.nested else values

    def check(self, state: Any, before: tuple[Any, ...]) -> None:
        """What a handler has set must fit its column."""
        checks = zip(
            self.columns.names, self.columns.checks, self.values(state), before, strict=True
        )
        for name, check, new, old in checks:
            if new is not old:
                setattr(state, name, check(new))


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda state: ()
    only = attrgetter(names[0])
    return lambda state: (only(state),)


class RowContext:
    """One for a batch; it is told of each key and call. What a call does can be undone."""

    __slots__ = (
        "clock", "emitted", "firing", "handles_timers", "key", "late", "now", "outputs", "place",
        "time", "timers",
    )  # fmt: skip

    def __init__(self, step: ProcessSpec, batch: Batch, handles_timers: bool) -> None:
        self.clock, self.now = clock_before(batch), moment(batch.tick)
        self.outputs: dict[str, Columns] = {
            name: columns_of(schema) for name, schema in step.outputs
        }
        self.emitted: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self.outputs}
        self.handles_timers = handles_timers
        self.key: Mapping[str, Any] = {}
        self.timers: Timers = {}
        self.firing: tuple[int, TimerClock] | None = None
        self.late = False
        self.time = EPOCH
        self.place = (0, 0)

    def emit(self, output: str, /, _at: datetime | None = None, **values: Any) -> None:
        columns = self.outputs.get(output)
        if columns is None:
            raise ValueError(f"there is no output {output!r}; there is {', '.join(self.outputs)}")
        try:
            row = columns.row(values)
        except TypeError as error:
            raise TypeError(f"output {output!r}: {error}") from None
        at = self.time if _at is None else naive(_at, _not_a_time)
        pos, sub = self.place
        self.place = (pos, sub + 1)
        self.emitted[output].append((*row, at, pos, sub))

    def timer(self, name: str, at: datetime, *, clock: TimerClock = "event") -> None:
        if clock not in ("event", "processing"):
            raise ValueError(f"a timer's clock is 'event' or 'processing', not {clock!r}")
        if not isinstance(name, str):
            raise TypeError(f"a timer's name is text, not {name!r}")
        if not self.handles_timers:
            raise TypeError("the processor has no on_timer")
        due = instant(naive(at, _not_a_time))
        if self.firing is not None and self.firing[1] == clock and due <= self.firing[0]:
            raise ValueError(f"a timer can set {name!r} only to a later time than its own, {at}")
        # not in place: an error in the handler takes it back
        self.timers = {**self.timers, name: (due, clock)}

    def cancel(self, name: str) -> None:
        self.timers = {other: due for other, due in self.timers.items() if other != name}

    def mark(self) -> tuple[Timers, list[int]]:
        return self.timers, [len(rows) for rows in self.emitted.values()]

    def undo(self, mark: tuple[Timers, list[int]]) -> None:
        self.timers, sizes = mark
        for rows, size in zip(self.emitted.values(), sizes, strict=True):
            del rows[size:]


def _not_a_time(value: Any) -> TypeError:
    return TypeError(f"a time is a datetime, not {value!r:.100}")


def event_place(pos: int, sub: int) -> tuple[int, int]:
    """Where the first row stands that an event emits."""
    return pos, (sub * SPREAD) % END


@cache
def _salt(name: str, clock: str) -> bytes:
    return f"{clock}/{name}/".encode()


def timer_place(hashed: int, name: str, due: tuple[int, str]) -> tuple[int, int]:
    """A position for what a timer emits: before all of records, the same whenever it runs."""
    text = _salt(name, due[1]) + f"{due[0]}/{hashed}".encode()
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return -1 - (number >> 1), 0


def timer_letter(name: str, at: datetime, place: tuple[int, int]) -> tuple[Place, dict[str, Any]]:
    return Place(at, *place), {"timer": name, "at": at}
