"""Processors: a program's own logic per key, with state and timers, for what no operator covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    import polars as pl

TimerClock = Literal["event", "processing"]


class Event(Mapping[str, Any]):
    """A row that nobody may change: `event.user` or `event["user"]`. Times are naive UTC."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            names = ", ".join(self._values)
            raise AttributeError(f"the event has no column {name!r}; it has {names}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Event({self._values})"


class State(Protocol):
    """What is kept of a key: an attribute per column of the processor's `state`."""

    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def clear(self) -> None:
        """Back to the defaults; a key with nothing else to keep, and no timer, is forgotten."""


class Context(Protocol):
    """What a handler is told of time and key, and where it puts what it makes."""

    time: datetime
    """When the event happened, or what the timer was set to."""
    clock: datetime | None
    """How far event time had come before the batch; None before the first events."""
    now: datetime
    """When the batch runs, as it was logged: the same when the batch runs again."""
    key: Mapping[str, Any]
    late: bool
    """Whether the clock had passed the event when it came."""

    def emit(self, output: str, /, _at: datetime | None = None, **values: Any) -> None:
        """A row for an output, with all its columns. Its time is `_at`, or the context's."""

    def timer(self, name: str, at: datetime, *, clock: TimerClock = "event") -> None:
        """Sets the key's timer of this name, or moves it."""

    def cancel(self, name: str) -> None:
        """The timer of this name does not fire; there may be none."""


class Processor:
    """Logic of your own: one event at a time, with the state and the timers of its key.

    Keep nothing on `self`: an instance serves many keys, and there is one in each process.
    """

    state: ClassVar[str] = ""
    """Columns kept per key, as in a stream's schema; DEFAULT says what a new key has."""
    outputs: ClassVar[Mapping[str, str]] = {}
    """The columns of each output, by its name."""

    def on_event(self, event: Event, state: State, context: Context) -> None:
        """An event of a key. Those of one batch come in order of event time, then position."""
        raise NotImplementedError

    def on_timer(self, name: str, state: State, context: Context) -> None:
        """A timer that its clock has reached."""
        raise NotImplementedError


class FrameContext(Protocol):
    """What a handler of frames is told of time."""

    clock: datetime | None
    now: datetime


class FrameProcessor:
    """Logic of your own over Polars frames: all events of a batch and page at once.

    Both handlers return frames by output, and under "state" the rows that are kept; a key that is
    missing there is forgotten. Frames of outputs hold `__at`, the time of each row.
    """

    state: ClassVar[str] = ""
    """Columns kept per key. With one called `timer`, a timestamp, `on_timers` is called."""
    outputs: ClassVar[Mapping[str, str]] = {}

    def on_frame(
        self, events: pl.DataFrame, state: pl.DataFrame, context: FrameContext
    ) -> Mapping[str, pl.DataFrame]:
        """Events in order of time, then position; and a row of state for each of their keys."""
        raise NotImplementedError

    def on_timers(self, state: pl.DataFrame, context: FrameContext) -> Mapping[str, pl.DataFrame]:
        """The rows of state whose `timer` the clock has reached. One that is left as it was is
        done."""
        raise NotImplementedError
