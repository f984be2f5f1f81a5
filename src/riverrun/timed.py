"""Streams whose rows can get another event time."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

from riverrun.arguments import checked
from riverrun.clock import Pace
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels import sql
from riverrun.kernels.program import ReadTopic
from riverrun.plan.nodes import Node, WithTime
from riverrun.plan.rows import form_of, origins
from riverrun.relation import Relation


@dataclass(frozen=True)
@checked
class Timed(Relation):
    """What only streams have of time."""

    def with_time(
        self,
        time: str,
        *,
        lateness: Duration = "0 seconds",
        idle: Duration = "10 seconds",
        name: str | None = None,
    ) -> Self:
        """Another event time from here on: that of a column, or of an expression over columns.

        It has a clock of its own, with `lateness` and `idle` as a source has them; `name` tells it
        apart from others of the same topic. A row without such a time is a dead letter.
        """
        at = caller()
        pace = Pace(microseconds(lateness, at), microseconds(idle, at))
        return replace(self, node=_timed(self.node, time, pace, name, at))


def _timed(rows: Node, time: str, pace: Pace, name: str | None, at: Location) -> WithTime:
    """Rows with another event time."""
    if form_of(rows) != "facts" or not all(isinstance(n, ReadTopic) for n in origins(rows)):
        raise ProgramError(
            "rows get another time before the first step with state",
            where=at,
            got="what a step gives has the time that the step gives it",
            hint="call .with_time(…) on the stream that the step is made of",
        )
    text = rows.schema.expression(time)
    found = sql.type_of(text, rows.schema, at)
    if not found.startswith("TIMESTAMP") and found != "DATE":
        raise ProgramError(f"the time {time!r} is {found}, not a timestamp", where=at)
    made = name or re.sub(r"\W+", "_", time).strip("_")
    if not re.fullmatch(r"\w{1,100}", made):
        raise ProgramError(
            "a name has letters, digits and _", where=at, got=repr(made), hint='name="arrivals"'
        )
    return WithTime(rows, text, pace, made, rows.schema, at)
