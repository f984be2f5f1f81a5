"""Steps that run a class of the user's own, given events and timers of a key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from riverrun.kernels.operator import Entry, Leaving, PlainOperator, Words
from riverrun.kernels.uses import Use
from riverrun.processor import FrameProcessor, Processor
from riverrun.schema import Column, Schema, columns_text, literal, quoted

DATES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


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
        wrong = [_checked(column) for column in self.schema.columns if column.type in DATES]
        checked = f"(SELECT * REPLACE ({', '.join(wrong)}) FROM {rows})" if wrong else rows
        return Entry.of_facts(self.schema.names, checked)

    def uses(self, number: int) -> Iterable[Use]:
        return ()

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


def _checked(column: Column) -> str:
    """A date or time as Python has them, from the year 1 to 9999; another one fails."""
    name = quoted(column.name)
    known = f"{name} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'::{column.type}"
    wrong = literal(f"{column.name} is no date that Python has: ")
    return f"CASE WHEN NOT {known} THEN error({wrong} || {name}::VARCHAR) ELSE {name} END AS {name}"
