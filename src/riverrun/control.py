"""The control log: what is asked of a running application, in one order, with the log of its input.

One topic per application holds commands. The planner decides at which batch they take effect, and
logs it with the batch, so that a batch that is run again repeats them. Pages are told of them as
they are of time. It takes no part in clocks, in how much is read, in lag, or in when a run that
reads once has read all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from riverrun.partitions import real

SOURCE = 127
"""The number of the control log in positions: the last that there is, so that it renumbers none."""

EVERYTHING = "*"
"""The target of a command that is for all."""


RULE, REMOVE_RULE, ANSWER = "rule", "remove rule", "answer"
"""Commands for a step with live rules, and what it answers."""
QUERY, REMOVE_QUERY = "query", "remove query"
"""Commands for a step with stored queries, which answers as one with rules does."""

ACKNOWLEDGE, SILENCE, UNSILENCE = "acknowledge alert", "silence alerts", "unsilence alerts"
"""Commands for a step that alerts people."""

REBUILD_STATE = "rebuild state"
"""What is made of a topic of events is to be made anew."""

FORGET = "forget"
"""The key of a subject is to be destroyed once the batch is committed that this came with."""

QUESTION = "question"
"""Asks for the rows of a step's table, as they stand after a batch."""
QUESTIONS, ASKED = 10, 100
"""So many different questions, and so many in all, take effect with one batch: the others with the
next."""
SKEW = 300_000_000
"""Microseconds by which the clocks of machines may differ."""


def control_topic(application: str) -> str:
    return f"{application}.control"


def answer_topic(application: str) -> str:
    """Of what pages answer to questions: it is larger, and kept for an hour."""
    return f"{application}.answers"


@dataclass(frozen=True)
class Command:
    """One record of the control log."""

    offset: int
    kind: str
    target: str
    """What it is for: a topic, a step, an output; or everything."""
    body: dict[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """A body has no say in what it is and whom it is for."""
        return json.dumps({**self.body, "kind": self.kind, "target": self.target}).encode()

    @classmethod
    def decoded(cls, offset: int, value: bytes | None) -> Command:
        """What cannot be read is a command that nobody knows: it changes nothing."""
        try:
            body = json.loads(value or b"")
            return cls(offset, str(body.pop("kind")), str(body.pop("target")), body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(offset, "unreadable", "")


def waited_for(commands: Iterable[Command], tick: int) -> list[Command]:
    """Without questions whose asker has given up: the log is kept for ever, and read again when an
    application starts over."""
    return [each for each in commands if not _given_up(each, tick)]


def first_of(commands: Iterable[Command], end: int, tick: int) -> int:
    """How far a batch takes the commands up to `end`: it is not to get too many questions."""
    asked = [each for each in waited_for(commands, tick) if each.kind == QUESTION]
    different: set[tuple[str, str]] = set()
    for number, each in enumerate(asked):
        different.add((each.target, str(each.body.get("query"))))
        if len(different) > QUESTIONS or number == ASKED:
            return each.offset
    return end


def _given_up(command: Command, tick: int) -> bool:
    until = command.body.get("until")
    return command.kind == QUESTION and isinstance(until, int) and until + SKEW < tick


def made_anew(commands: Iterable[Command]) -> set[str]:
    """The topics of which all is to be read once more."""
    return {each.target for each in commands if each.kind == REBUILD_STATE}


def paused_after(
    paused: Iterable[str], commands: Iterable[Command], topics: Collection[str]
) -> list[str]:
    """Those of the topics that are not to be read, after these commands."""
    found = set(paused)
    for each in commands:
        everything = each.target == EVERYTHING
        meant = {t for t in topics if everything or each.target in (t, real(t))}
        if each.kind == "pause":
            found |= meant
        elif each.kind == "resume":
            found -= meant
    return sorted(found)
