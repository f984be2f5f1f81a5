"""Alerts: steps of which more rows are late than the program allows, over the last ten minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

PERIOD = 600_000_000
GRAIN = 10_000_000
"""Counts are kept per ten seconds, for ten minutes (in microseconds)."""

Count = tuple[int, int, int]
"""From which tick on, rows, and how many of them were late."""


class Batch(Protocol):
    """What a batch counted."""

    tick: int
    rows: dict[str, int]
    late: dict[str, int]


@dataclass
class LateShares:
    """What the last batches counted per step, and the alerts that stand."""

    recent: dict[str, list[Count]] = field(default_factory=dict)
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def add(self, limits: Mapping[str, float], status: Batch) -> None:
        """One batch more. Its time is the logged tick."""
        since = {alert["step"]: alert["since"] for alert in self.alerts}
        self.alerts = []
        for step, limit in limits.items():
            counts = self._counted(step, status)
            share = late_share(sum(c[1] for c in counts), sum(c[2] for c in counts))
            if share > limit:
                begun = since.get(step, status.tick)
                alert = {"step": step, "share": share, "limit": limit, "since": begun}
                self.alerts.append(alert)

    def _counted(self, step: str, status: Batch) -> list[Count]:
        start = status.tick - status.tick % GRAIN
        rows, late = status.rows.get(step, 0), status.late.get(step, 0)
        counts = [each for each in self.recent.get(step, []) if each[0] > start - PERIOD]
        if counts and counts[-1][0] == start:
            rows, late = rows + counts[-1][1], late + counts[-1][2]
            counts.pop()
        if rows or late:
            counts.append((start, rows, late))
        self.recent[step] = counts
        return counts


def late_share(rows: int, late: int) -> float:
    return late / rows if rows else 0.0


def begun_and_over(
    before: list[dict[str, Any]], now: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The alerts that are new, and those that are over."""
    was, is_now = ({alert["step"] for alert in each} for each in (before, now))
    return [a for a in now if a["step"] not in was], [a for a in before if a["step"] not in is_now]


def alert_text(alert: Mapping[str, Any]) -> str:
    return f"{alert['share']:.1%} of the rows are late, more than {alert['limit']:.1%}"
