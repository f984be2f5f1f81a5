"""Comparisons with an earlier window of a key that has no rows any more."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from keeping import NOON
from riverrun.testing import Driver
from test_join_oracle import mishaps
from thorough import examples

MINUTE = 60


def program(emit="ready", updatable="3 minutes"):
    app = rr.App("falls", pages=2)
    rows = app.stream("rows", schema="k string, v bigint, at timestamp", time="at")
    windows = rows.group_by("k", name="minutes").window(
        rr.tumbling("1 minute"), emit=emit, updatable=updatable
    )
    windows.agg(
        n=rr.compared_to("2 minutes", rr.count(), falls=True), v=rr.sum("v"), most=rr.max("v")
    ).to("out")
    return app


def test_a_fall_to_nothing_is_seen_and_corrected():
    out = Driver(program()).run(
        rows="""
        at       | k | v
        12:00:00 | a | 5
        12:00:30 | b | 7
        12:02:10 | b | 1
        ------
        12:03:00 | b | 1      # the third minute is over: a is missed
        ------
        12:02:50 | a | 9      # it was late
    """
    )
    out.assert_is("""
        +- | window_start | k | n | v | most | n_earlier | n_difference | n_ratio | revision
        +  | 12:00        | a | 1 | 5 | 5    |           |              |         | 0
        +  | 12:00        | b | 1 | 7 | 7    |           |              |         | 0
        +  | 12:02        | a | 0 | 0 |      | 1         | -1           | 0       | 0
        +  | 12:02        | b | 1 | 1 | 1    | 1         | 0            | 1       | 0
        -  | 12:02        | a | 0 | 0 |      | 1         | -1           | 0       | 0
        +  | 12:02        | a | 1 | 9 | 9    | 1         | 0            | 1       | 1
    """)


rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 90), st.sampled_from("ab")),
                max_size=6)  # fmt: skip


@settings(deadline=None, max_examples=examples(15))
@given(st.lists(rows, min_size=2, max_size=6), mishaps)
def test_falls_are_those_of_all_rows(batches, mishaps):
    """Rows out of order are corrected: none is late."""
    driver, front, last, counts = Driver(program()), 0, 0, Counter()
    for batch, mishap in zip(batches, mishaps, strict=False):
        for on, back, key in batch:
            front += on
            time = max(front - back, 0)
            last = max(last, time)
            counts[time // MINUTE, key] += 1
            at = (NOON + timedelta(seconds=time)).isoformat()
            driver.send("rows", {"k": key, "v": 1, "at": at})
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
        over = [window for window in range(last // MINUTE + 1) if (window + 1) * MINUTE <= last]
        wanted = {
            (window, key): (counts[window, key], counts.get((window - 2, key)))
            for window in over
            for key in "ab"
            if (window, key) in counts or (window - 2, key) in counts
        }
        start = NOON.replace(tzinfo=None)
        found = {
            (round((_time(row["window_start"]) - start).total_seconds()) // MINUTE, row["k"]): (
                row["n"], row["n_earlier"]
            )
            for row in driver.table("out")
        }  # fmt: skip
        assert found == wanted


def _time(text):
    return NOON.fromisoformat(text).replace(tzinfo=None)


def test_windows_that_are_not_over_are_not_missed():
    with pytest.raises(rr.ProgramError, match="has no row of windows that are not over"):
        program(emit="changes")
    driver = Driver(program())
    driver.send("rows", {"k": "a", "v": 1, "at": NOON.isoformat()})
    driver.batch()
    driver.end()
    assert len(driver.table("out")) == 1
