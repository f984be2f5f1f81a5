"""Windows of one size that overlap."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from riverrun.arguments import checked
from riverrun.durations import Duration, duration_text
from riverrun.errors import ProgramError, caller
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.operators.aggregate import Aggregate, StandingWindows
from riverrun.operators.windows import panes
from riverrun.operators.windows.grid import Grid, alignment, length, whole_days
from riverrun.operators.windows.tumbling import Tumbling


@dataclass(frozen=True)
class Hopping(Grid):
    kind = "hopping"

    @property
    def pane(self) -> int:
        return gcd(self.size, self.hop)

    @property
    def suffix(self) -> str:
        size, hop = duration_text(self.size), duration_text(self.hop)
        return f"_per_{size}_every_{hop}".replace(" ", "_")

    def compared(self) -> int | None:
        return self.hop

    def advance(self, step: Aggregate[Any], state: StepState, batch: Batch) -> Result:
        return panes.advance(step, state, batch)

    @property
    def standing(self) -> StandingWindows:
        return panes.standing


@checked
def hopping(
    size: Duration, hop: Duration, *, offset: Duration = "0 seconds", timezone: str | None = None
) -> Grid:
    """Windows of one size that begin every `hop`: `hopping("5 minutes", "1 minute")`."""
    at = caller()
    long, distance = length("a window", size, at), length("a hop", hop, at)
    if distance > long:
        raise ProgramError(
            "a hop is at most the size of the window",
            where=at,
            got=f"{size} every {hop}",
            hint="rows between two windows would belong to none; filter them with where()",
        )
    begin = alignment(distance, offset, timezone, at)
    if timezone:
        whole_days(long, at)
    kind = Tumbling if distance == long else Hopping
    return kind(long, distance, begin, timezone)
