"""The rules of an aggregate: two pure functions, and the classes that they speak of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from riverrun.errors import JobError, cause_of
from riverrun.operators.decide.kinds import Kind, by_name, made_of
from riverrun.operators.decide.written import encoded
from riverrun.sourcing import Rejected


class Happened(NamedTuple):
    """An event as it is written."""

    type: str
    schema_version: int
    data: str


class Told:
    """What `decide` is told beside state and command."""

    __slots__ = ("_given", "_salt", "aggregate", "by", "command", "now", "version")

    def __init__(
        self, salt: str, *, now: datetime, aggregate: str, version: int, command: str,
        by: str | None,
    ) -> None:  # fmt: skip
        self.now, self.aggregate, self.version = now, aggregate, version
        self.command, self.by = command, by
        self._salt, self._given = salt, 0

    def new_id(self) -> str:
        self._given += 1
        text = f"{self._salt}/{self.aggregate}/{self._given}".encode()
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def again(self) -> Told:
        """As it was before it was asked anything."""
        return Told(
            self._salt, now=self.now, aggregate=self.aggregate, version=self.version,
            command=self.command, by=self.by,
        )  # fmt: skip


@dataclass(frozen=True)
class Rules:
    state: type[Any]
    """The class of states: its `decide` and `evolve` are the rules."""
    commands: tuple[type[Any], ...]
    events: tuple[type[Any], ...]
    version: str
    """Of `evolve`, of the events' classes and of their upcasters."""
    remember: int
    """Microseconds for which a command that comes again is known."""
    told: bool
    """Whether `decide` wants to be told more than state and command."""

    @cached_property
    def command_kinds(self) -> dict[str, Kind]:
        return by_name(self.commands)

    @cached_property
    def event_kinds(self) -> dict[str, Kind]:
        return by_name(self.events)

    @cached_property
    def state_kind(self) -> Kind:
        return Kind(self.state)

    def begin(self) -> Any:
        """The state of an aggregate that nothing has happened to."""
        return self.state()

    def decide(self, state: Any, type: str | None, data: str | None, told: Told) -> list[Happened]:
        """The events that a command leads to; Rejected, or any other error, if it does not."""
        command = made_of(self.command_kinds, type, data)
        given = state.decide(command, told) if self.told else state.decide(command)
        if isinstance(given, Rejected):
            raise given
        return [self._written(each) for each in self._listed(given)]

    def _listed(self, given: Any) -> Iterable[Any]:
        if given is None:
            return ()
        if isinstance(given, self.events) or not isinstance(given, Iterable):
            return (given,)
        return given

    def _written(self, event: Any) -> Happened:
        kind = self.event_kinds.get(type(event).__name__)
        if kind is None or type(event) is not kind.type:
            raise TypeError(
                f"decide gave {event!r:.100}, which is no event that evolve takes: "
                f"{', '.join(self.event_kinds)}"
            )
        return Happened(kind.name, kind.version, encoded(event).decode())

    def evolve(self, state: Any, event: Happened) -> Any:
        """The state after an event, which is taken as it would be read again."""
        kind = self.event_kinds.get(event.type)
        if kind is None:
            raise JobError(
                f"no code knows the event {event.type!r}",
                got=f"{self.state.__name__}.evolve takes {', '.join(self.event_kinds)}",
                hint="events stay for ever: keep its class, and let evolve take it",
            )
        fields = kind.upcasted(event.data.encode(), event.schema_version)
        made = state.evolve(kind.made(fields))
        if not isinstance(made, self.state):
            raise TypeError(f"evolve gave {made!r:.100}, not {self.state.__name__}")
        return made

    def remade(self, state: Any, event: Happened, *, where: str) -> Any:
        """The state after an event of history, which no code can refuse."""
        try:
            return self.evolve(state, event)
        except JobError:
            raise
        except Exception as error:  # whatever the program's code raises
            raise JobError(
                f"{self.state.__name__} cannot be made of an event that has happened",
                where=f"{where} ({event.type})",
                got=cause_of(error),
                hint="events stay as they are: let evolve take it, or write an upcaster; the "
                "class and upcasters of a newer program read its events",
            ) from error

    def kept(self, state: Any) -> str:
        return encoded(state).decode()

    def read(self, state: str) -> Any:
        return self.state_kind.read(state.encode())
