"""Steps that decide: commands come in, events and replies leave, by the rules of one class.

Two ways lead in: the topic of commands, in the order of its log, and the topic of events, which is
read once, up to the end that it had, before the first command: so states are made of what has
happened, and nothing else, whenever there are none of this version of the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from riverrun.columns import PLACE
from riverrun.durations import duration_text
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Input,
    Leaving,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.uses import Use
from riverrun.operators.decide.deciding import Deciding
from riverrun.operators.decide.kinds import Kind
from riverrun.operators.decide.parts import travelling
from riverrun.operators.decide.records import COMMANDS, EVENTS
from riverrun.operators.decide.rules import Rules
from riverrun.schema import column_list

RULES = "version of rules"
"""What checkpoints call it."""


class Topics(NamedTuple):
    commands: str
    events: str
    replies: str


@dataclass(frozen=True, kw_only=True)
class Decide(PlainOperator):
    rules: Rules
    topics: Topics

    kind = "decide"

    @property
    def inputs(self) -> tuple[Input, ...]:
        history = Input(
            port="history", word="made of", takes="facts", late=False, moves_clock=False,
            loaded_first=True,
        )  # fmt: skip
        return (Input(takes="facts", late=False), history)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.keys)

    def enter(self, number: int, rows: str) -> Entry:
        columns = (EVENTS if number else COMMANDS).names
        return Entry(f"SELECT {column_list((*columns, *PLACE))} FROM {rows}")

    def grows(self, tables: list[str]) -> str | None:
        return "the state of every aggregate"

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def passes(self, number: int, output: str) -> Mapping[str, str] | None:
        return None if output in ("", "events") else {}

    def words(self) -> Words:
        rules = self.rules
        return Words.of(
            ("decides", f"{rules.state.__name__}: {', '.join(rules.command_kinds)}"),
            ("events", ", ".join(map(_named, rules.event_kinds.values()))),
            ("remembers", f"commands for {duration_text(rules.remember)}"),
            ("rules", f"version {rules.version}"),
        )

    def frozen(self) -> dict[str, Any]:
        return {"commands": self.topics.commands, "events": self.topics.events}

    def settings(self) -> dict[str, Any]:
        # states of other rules are never read: they are made anew of the events
        rules = self.rules
        return {
            RULES: rules.version, "remember": rules.remember,
            "replies": self.topics.replies,
        }  # fmt: skip

    def owned(self) -> list[object]:
        return [*map(travelling, (self.rules.state, *self.rules.commands, *self.rules.events))]

    @property
    def fails_on(self) -> str | None:
        return "commands that cannot be read, or that decide fails on"

    @property
    def standing(self) -> Standing:
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        rows = state.rows().standing()
        return None if rows is None else rows.filter(pl.col("rules") == self.rules.version)

    def advance(self, state: StepState, batch: Batch) -> Result:
        return Deciding(self, self.rules, state, batch).result()


def _named(kind: Kind) -> str:
    return kind.name if kind.version == 1 else f"{kind.name} (version {kind.version})"
