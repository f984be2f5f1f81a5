"""Steps that run a class of the user's own, given events and timers of a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riverrun.kernels.operator import Entry, Leaving, PlainOperator, Words
from riverrun.processor import FrameProcessor, Processor
from riverrun.schema import Schema, columns_text


@dataclass(frozen=True, kw_only=True)
class ProcessSpec(PlainOperator):
    """What both kinds of processors share; their kernels are beside this file."""

    takes = "facts"
    can_be_late = False

    processor: Processor | FrameProcessor
    """One per worker process."""
    state: Schema
    defaults: tuple[Any, ...]
    """The state of a new key."""
    outputs: tuple[tuple[str, Schema], ...]

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.keys)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_facts(self.schema.names, rows)

    def words(self) -> Words:
        kept = columns_text(self.state) or "none"
        emitted = [(name, columns_text(schema)) for name, schema in self.outputs]
        return Words.of(("runs", type(self.processor).__name__), ("state", kept), *emitted)

    def frozen(self) -> dict[str, Any]:
        outputs = {name: schema.ddl() for name, schema in self.outputs}
        return {"state": self.state.ddl(), "outputs": outputs}

    def owned(self) -> list[object]:
        return [self.processor]

    @property
    def fails_on(self) -> str | None:
        return "events that a processor fails on"

    @property
    def wakes_with_tick(self) -> bool:
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """Of an event."""
        return self.schema.names
