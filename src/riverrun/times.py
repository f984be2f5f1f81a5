"""When an event happened: by a column or an expression, a repaired device clock, the broker, or the
batch."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar, get_args

from riverrun.arguments import checked
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import caller
from riverrun.schema import Column


@dataclass(frozen=True)
class ColumnTime:
    """A column of the records, or their own timestamp."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that time is made of."""
        return (self.column,)

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns that time adds to the rows."""
        return ()

    def __str__(self) -> str:
        return self.column


@dataclass(frozen=True)
class ExpressionTime:
    """What an expression over a record's columns gives."""

    said: str
    """As the program has it."""
    expression: str
    columns: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[tuple[Column, ...]] = (Column("event_time", "TIMESTAMP"),)

    def __str__(self) -> str:
        return self.said


@dataclass(frozen=True)
class DeviceTime:
    """A device's time, put right by what its clock said when a server received the record."""

    occurred: str
    sent: str
    received: str
    max_offset: int

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.occurred, self.sent, self.received)

    @property
    def added(self) -> tuple[Column, ...]:
        return (
            Column("event_time", "TIMESTAMP"),
            Column("clock_offset", "BIGINT"),
            Column("clock_suspect", "BOOLEAN"),
        )

    def __str__(self) -> str:
        return (
            f"{self.occurred} + ({self.received} - {self.sent}), "
            f"at most {duration_text(self.max_offset)} off"
        )


@dataclass(frozen=True)
class AppendTime:
    """The time at which the broker appended the record."""

    columns: ClassVar[tuple[str, ...]] = ("_timestamp",)
    added: ClassVar[tuple[Column, ...]] = ()

    def __str__(self) -> str:
        return "append time"


@dataclass(frozen=True)
class ProcessingTime:
    """The time of the batch, as it was logged."""

    columns: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[tuple[Column, ...]] = ()

    def __str__(self) -> str:
        return "processing time"


EventTime = ColumnTime | ExpressionTime | DeviceTime | AppendTime | ProcessingTime


def from_repr(text: str) -> EventTime:
    """The time whose repr it is, as checkpoints keep it."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{text!r} is no event time")
    kinds: dict[str, type[EventTime]] = {kind.__name__: kind for kind in get_args(EventTime)}
    given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return kinds[call.func.id](**given)


@checked
def device_time(
    *, occurred: str, sent: str, received: str = "_timestamp", max_offset: Duration = "1 day"
) -> DeviceTime:
    """The time of a device whose clock may be wrong: occurred + (received - sent).

    `occurred` and `sent` are columns with the device's clock, `received` the record's timestamp or
    a column that a server has set. An offset beyond `max_offset` is not believed: the time is then
    that of `received`. Adds the columns event_time, clock_offset (ms) and clock_suspect.
    """
    return DeviceTime(occurred, sent, received, microseconds(max_offset, caller()))


@checked
def append_time() -> AppendTime:
    """The time at which the broker appended the record; its topic must keep that time."""
    return AppendTime()


@checked
def processing_time() -> ProcessingTime:
    """The time at which a record's batch ran; a batch that runs again has the same."""
    return ProcessingTime()
