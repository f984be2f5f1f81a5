"""What can be said of a capture beside its tables, as types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from riverrun.durations import Duration
from riverrun.forgetting.declared import Personal
from riverrun.kernels.letters import OnError
from riverrun.times import EventTime


class CaptureOptions(TypedDict, total=False):
    database: str | None
    name: str | None
    by: Literal["riverrun", "connect"] | None
    schema: str | None
    key: str | Sequence[str] | None
    time: str | EventTime | None
    lateness: Duration
    idle: Duration
    max_ahead: Duration | None
    on_error: OnError | None
    transactions: Literal["whole"] | None
    personal: Personal | Sequence[Personal] | None
