"""The end of a backfill: clocks go on until all that is open has closed, and no further.

What is open tells when it closes. Steps close from the sources on: one that may still be given rows
by another waits for it, also where a topic of the program's own lies between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from riverrun.durations import BEGINNING
from riverrun.kernels.program import Program


@dataclass
class Closing:
    program: Program
    rounds: int = 0
    """Batches that were to close something since records were read."""

    def goes_on(self) -> None:
        """There was something to read."""
        self.rounds = 0

    def next(self, status: Mapping[str, Any] | None) -> dict[str, int] | None:
        """How far the clocks of which steps go in the next batch; None: all is closed.

        The first one names none: it lets rows go that wait for a table, and tells what is open.
        """
        steps = len(self.program.steps)
        # a timer may set the next one for ever: each round closes at least one step
        if not steps or self.rounds > steps + 2:
            return None
        told = status or {"closes": {}, "clocks": {}}
        clocks = told["clocks"]
        waiting = {n: at for n, at in told["closes"].items() if at > clocks.get(n, BEGINNING)}
        if self.rounds and not waiting:
            return None
        self.rounds += 1
        first = {
            name: at for name, at in waiting.items() if not self._before[name] & waiting.keys()
        }
        return first or waiting

    @cached_property
    def _before(self) -> dict[str, set[str]]:
        """The steps whose rows may come to each step, by any way."""
        names = {step.name for step in self.program.steps}
        into: dict[str, set[str]] = {}
        for branch in self.program.branches:
            into.setdefault(_node(branch.target.kind, branch.target.name), set()).add(
                _node(branch.origin.kind, branch.origin.name)
            )
        for output in self.program.outputs:
            if (topic := output.sink.kafka_topic()) in self.program.own_topics:
                into.setdefault(_node("source", topic), set()).add(_node("out", output.name))
        found = {}
        for name in names:
            seen, todo = set[str](), [_node("step", name)]
            while todo:
                new = into.get(todo.pop(), set()) - seen
                seen |= new
                todo += new
            found[name] = {each for each in names if _node("step", each) in seen} - {name}
        return found


def _node(kind: str, name: str | None) -> str:
    """Rows leave a step by several edges, and a Spark step by another than they enter."""
    place = {"source": "source", "out": "out", "spark": "spark", "from spark": "spark"}
    return f"{place.get(kind, 'step')}:{name}"
