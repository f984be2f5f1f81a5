"""A program whose results depend on time alone: events per device and five minutes."""

from __future__ import annotations

import riverrun as rr
from riverrun.durations import BEGINNING
from riverrun.testing import Driver

FIVE = rr.tumbling("5 minutes")
NOON = "2026-01-01T12:00:00Z"


def counted(
    schema="at timestamp, device string, kind string", now=None, alert=None, pages=2, **options
):
    """Events per device and five minutes, to `out`."""
    app = rr.App("iot", pages=pages)
    options = {"time": "at", **options}
    stream = app.stream("t", schema=schema, **options)
    grouped = stream.group_by("device", name="devices").window(FIVE, late_alert=alert)
    grouped.agg(n=rr.count()).to("out")
    return Driver(app, now=now)


class PlainClock:
    """The clock over producers as plain Python tells it; it remembers all that were there."""

    def __init__(self, lateness: int, idle: int) -> None:
        self.lateness, self.idle, self.now = lateness, idle, BEGINNING
        self.active: dict[str, tuple[int, int]] = {}
        """Producer to its highest time, and the tick of its last record."""
        self.offsets: list[int] = []
        """How far ahead of the tick each was that went away."""

    def batch(self, tick: int, highs: dict[str, int], *, behind: bool = False) -> int:
        for name, high in highs.items():
            self.active[name] = (max(high, self.active.get(name, (high, 0))[0]), tick)
        gone = [n for n, (_, at) in self.active.items() if not behind and tick - at >= self.idle]
        self.offsets += [high - at for high, at in (self.active.pop(name) for name in gone)]
        if self.active:
            self.now = max(self.now, min(high for high, _ in self.active.values()) - self.lateness)
        elif self.offsets:
            self.now = max(self.now, max(self.offsets) + tick - self.lateness)
        return self.now
