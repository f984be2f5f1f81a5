"""Who waits for a write is told the clock at which a step has given what comes of it: none at which
it is still to come, and none long after it is there."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

import riverrun as rr
from riverrun.operators.aggregate import Emit
from riverrun.testing import Driver

SECOND, HOUR = 1_000_000, 3_600_000_000
WINDOWS = {
    "tumbling": rr.tumbling("1 minute"), "hopping": rr.hopping("1 minute", "20 seconds"),
    "session": rr.session("30 seconds"), "sliding": rr.sliding("1 minute"),
}  # fmt: skip


def visited(kind: str, emit: Emit, updatable: str) -> Driver:
    """With a click of ann's."""
    app = rr.App("shop")
    clicks = app.stream("clicks", schema="user string, at timestamp", time="at")
    groups = clicks.group_by("user", name="visits")
    windows = groups.window(WINDOWS[kind], emit=emit, updatable=updatable)
    windows.agg(n=rr.count()).to(rr.sinks.view("visits"))
    driver = Driver(app)
    driver.send("clicks", {"user": "ann", "at": "2026-01-01T12:01:05Z"})
    driver.batch()
    return driver


def told(driver: Driver, clock: int) -> int:
    """How many rows of ann's there are when the clock comes there."""
    at = datetime(1970, 1, 1) + timedelta(microseconds=clock)
    driver.send("clicks", {"user": "bob", "at": f"{at.isoformat()}Z"})
    driver.batch()
    return sum(line["value"]["user"] == "ann" for line in driver.outputs["view:visits"])


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize(
    ("emit", "updatable"), [("ready", "0 seconds"), ("ready", "1 hour"), ("final", "1 hour")]
)
def test_all_is_there_at_the_clock_that_is_told_and_not_before(
    kind: str, emit: Emit, updatable: str
) -> None:
    until = visited(kind, emit, updatable).status.closes["visits"]
    exact = 15 * SECOND if kind == "sliding" else 1  # its rows are kept in quarters
    before, at, after = (
        told(visited(kind, emit, updatable), clock)
        for clock in (until - exact, until, until + 2 * HOUR)
    )
    assert before < at == after
