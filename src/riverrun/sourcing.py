"""Event sourcing: what `decide` and `evolve` are given, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from riverrun.arguments import checked
from riverrun.errors import ProgramError, caller

Fields = dict[str, Any]
Upcaster = Callable[[Fields], Mapping[str, Any]]
"""From the fields of an event, as an older version wrote them, to those of the next version."""

U = TypeVar("U", bound=Upcaster)

UPCASTS_TO = "__upcasts_to__"
MOST = 1_000
"""Versions of a class, or of rules."""


class Rejected(Exception):
    """A command is refused: `decide` returns it, or raises it. Nothing changes, and whoever sent
    the command is told the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Decision(Protocol):
    """What `decide` is told beside the state and the command. The same when a batch runs again."""

    now: datetime
    """When the batch runs, as it was logged; naive UTC."""
    aggregate: str
    version: int
    """How many events the aggregate has had."""
    command: str
    """The command's id."""
    by: str | None
    """Who sent it, if that is known."""

    def new_id(self) -> str:
        """A new id: another one with each call, the same ones when the batch runs again."""


@checked
def upcast(*, to: int) -> Callable[[U], U]:
    """For a static method of an event's class, which makes fields of version `to` from those of the
    one before. The first version is 1; the class is of the last one that it has an upcaster to."""
    if not 2 <= to <= MOST:
        raise ProgramError(
            f"an upcaster leads to a version from 2 to {MOST}", where=caller(), got=f"to={to}",
            hint="what was first written is version 1",
        )  # fmt: skip

    def marked(function: U) -> U:
        setattr(function, UPCASTS_TO, to)
        return function

    return marked
