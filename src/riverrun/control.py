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

SOURCE = 127
"""The number of the control log in positions: the last that there is, so that it renumbers none."""

EVERYTHING = "*"
"""The target of a command that is for all."""


RULE, REMOVE_RULE, ANSWER = "rule", "remove rule", "answer"
"""Commands for a step with live rules, and what it answers."""


def control_topic(application: str) -> str:
    return f"{application}.control"


@dataclass(frozen=True)
class Command:
    """One record of the control log."""

    offset: int
    kind: str
    target: str
    """What it is for: a topic, a step, an output; or everything."""
    body: dict[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        return json.dumps({"kind": self.kind, "target": self.target, **self.body}).encode()

    @classmethod
    def decoded(cls, offset: int, value: bytes | None) -> Command:
        """What cannot be read is a command that nobody knows: it changes nothing."""
        try:
            body = json.loads(value or b"")
            return cls(offset, str(body.pop("kind")), str(body.pop("target")), body)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(offset, "unreadable", "")


def paused_after(
    paused: Iterable[str], commands: Iterable[Command], topics: Collection[str]
) -> list[str]:
    """Those of the topics that are not to be read, after these commands."""
    found = set(paused)
    for each in commands:
        meant = set(topics) if each.target == EVERYTHING else {each.target} & set(topics)
        if each.kind == "pause":
            found |= meant
        elif each.kind == "resume":
            found -= meant
    return sorted(found)
