"""A hot key of a join is spread over pages; duplicates are dropped in order of time."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from keeping import NOON
from riverrun.testing import Driver
from test_join_oracle import batches, mishaps, run, send_events
from thorough import examples

SCHEMA = "k string, j bigint, v bigint, at timestamp"
few = settings(deadline=None, max_examples=examples(10))


def joined(spread, how):
    app = rr.App("spread", pages=8)
    left, right = (
        app.stream(each, schema=SCHEMA, time="at", lateness="1 minute")
        for each in ("left", "right")
    )
    right = right.select("k", "v as w", "at as at_right")
    pairs = left.join(right, on="k", how=how, within="10 seconds", spread=spread, name="pairs")
    pairs.to("out")
    return app


def lines(driver):
    return sorted(str(line["value"]) for line in driver.outputs["out"])


@few
@given(batches, mishaps, st.sampled_from(["inner", "left"]))
def test_a_spread_join_gives_the_same_pairs(batches, mishaps, how):
    drivers = [Driver(joined(spread, how)) for spread in (1, 3)]
    for driver in drivers:
        run(driver, batches, mishaps, send_events)
    assert lines(drivers[0]) == lines(drivers[1])


def test_the_rows_of_a_hot_key_are_in_many_pages_and_late_ones_leave_once():
    driver = Driver(joined(8, "inner"))
    at = [(NOON + timedelta(seconds=n)).isoformat() for n in range(200)]
    driver.send("left", *({"k": "hot", "v": n, "at": at[n]} for n in range(200)))
    driver.send("right", {"k": "hot", "v": 1, "at": at[150]})
    driver.batch()
    assert len(driver.outputs["out"]) == 21
    heads = [json.loads(head) for head in driver.checkpoint.heads.values()]
    held = [head["sizes"]["pairs"]["left"][0] for head in heads if "pairs" in head["sizes"]]
    assert len(held) > 3
    assert max(held) < 100
    driver.send("right", {"k": "hot", "v": 2, "at": at[0]})
    driver.batch()
    assert driver.status.late == {"pairs": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"spread": 0}, "a number of keys from 1 to 1024"),
        ({"spread": 2, "how": "full"}, "only inner and left joins"),
    ],
)
def test_what_cannot_be_spread_is_refused(options, said):
    app = rr.App("refused")
    left, right = (app.stream(each, schema="k string") for each in ("left", "right"))
    with pytest.raises(rr.ProgramError, match=said):
        left.join(right, on="k", within="1 minute", **options)
    table = app.table("t", schema="k string, w bigint", key="k")
    with pytest.raises(rr.ProgramError, match="spread is for two streams"):
        left.join(table, on="k", spread=2)


rows = st.lists(st.tuples(st.integers(0, 300), st.sampled_from("ab")), max_size=30)


@few
@given(st.lists(rows, min_size=1, max_size=5), mishaps)
def test_in_order_the_first_by_time_passes_however_rows_come(batches, mishaps):
    """Against single rows in order of their time and place."""
    app = rr.App("ordered", pages=2)
    stream = app.stream("rows", schema="k string, n bigint, at timestamp", time="at",
                        lateness="10 minutes")  # fmt: skip
    stream.deduplicate("k", within="1 minute", in_order=True, name="once").to("out")
    driver, number, all_rows = Driver(app), 0, []
    for batch, mishap in zip(batches, mishaps, strict=False):
        for time, key in batch:
            at = (NOON + timedelta(seconds=time)).isoformat()
            driver.send("rows", {"k": key, "n": number, "at": at})
            all_rows.append((time, number, key))
            number += 1
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
    driver.end()
    last, wanted = {}, []
    for time, n, key in sorted(all_rows):
        if time - last.get(key, -60) >= 60:
            last[key] = time
            wanted.append(n)
    assert sorted(line["value"]["n"] for line in driver.outputs["out"]) == sorted(wanted)


def test_in_order_rows_leave_when_the_clock_has_passed_them_and_late_ones_are_told():
    app = rr.App("told")
    stream = app.stream("rows", schema="k string, at timestamp", time="at")
    once = stream.deduplicate("k", within="10 minutes", in_order=True)
    once.to("out")
    once.late.to("late")
    out = Driver(app).run(
        rows="""
        at    | k
        12:05 | a
        -----
        12:06 | b       # the clock passes a
        -----
        12:01 | a       # too late
        12:20 | c
    """
    )
    out.of("out").assert_is("k | at\na | 12:05\nb | 12:06")
    out.of("late").assert_is("k | at\na | 12:01")
