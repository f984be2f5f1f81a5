"""What joins keep, and for how long: rows that can match no more are forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import riverrun as rr
from riverrun.kernels.chunks import unpack
from riverrun.testing import Driver

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "k bigint, v bigint, at timestamp"


def kept(driver) -> int:
    """Rows in the segments of all pages."""
    stores = driver.checkpoint.stores.values()
    return sum(unpack(data).height for store in stores for data in store.data.values())


def event(seconds: int, key: int) -> dict[str, object]:
    return {"k": key, "v": seconds, "at": (NOON + timedelta(seconds=seconds)).isoformat()}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_streams_keep_rows_as_long_as_they_can_match(how):
    app = rr.App("state", pages=1)
    a, b = (app.stream(topic, schema=SCHEMA, time="at") for topic in ("a", "b"))
    a.join(b, on="k", within="10 seconds", how=how, prefix="b_").to("out")
    driver, sizes = Driver(app), []
    for start in range(0, 600, 20):
        driver.send("a", *(event(start + n, n % 7) for n in range(20)))
        driver.send("b", *(event(start + n, n % 5) for n in range(20)))
        driver.batch()
        sizes.append(kept(driver))
    # what the last 10 seconds hold, and what has ended but is not half of its segment yet
    assert max(sizes) < 250
    for topic in ("a", "b"):
        driver.send(topic, event(3600, 99))
    driver.batch()
    assert kept(driver) <= 4


@pytest.mark.parametrize("corrections", [False, True])
def test_versions_are_kept_for_the_history_and_the_last_one_for_ever(corrections):
    app = rr.App("state", pages=1)
    a = app.stream("a", schema=SCHEMA, time="at")
    t = app.table("t", schema=SCHEMA, key="k", time="at")
    joined = a.join(
        t, on="k", as_of="event time", history="1 minute", prefix="t_", corrections=corrections
    )
    joined.to("out")
    driver, sizes = Driver(app), []
    for start in range(0, 1200, 10):
        driver.send("t", *(event(start + n, n % 2) for n in range(10)))
        driver.send("a", *(event(start + n, n % 2) for n in range(10)))
        driver.batch()
        sizes.append(kept(driver))
    assert max(sizes) < 1000
    for topic in ("a", "t"):
        driver.send(topic, event(7200, 5))
    driver.batch()
    driver.send("a", event(7300, 5))
    driver.send("t", event(7300, 5))
    driver.batch()
    assert kept(driver) < 20


def test_a_deleted_row_is_forgotten_with_its_history():
    app = rr.App("state", pages=1)
    a = app.stream("a", schema=SCHEMA, time="at")
    t = app.table("t", schema=SCHEMA, key="k", time="at")
    a.join(t, on="k", as_of="event time", history="1 minute", prefix="t_").to("out")
    driver = Driver(app)
    driver.send("t", *(event(n, n) for n in range(50)))
    driver.batch()
    at = int((NOON + timedelta(seconds=60)).timestamp() * 1000)
    for key in range(50):
        driver.send("t", None, key=str(key), timestamp=at)
    driver.batch()
    for seconds in (3600, 3700):
        driver.send("t", event(seconds, 99))
        driver.send("a", event(seconds, 1))
        driver.batch()
    assert kept(driver) < 10
