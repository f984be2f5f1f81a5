"""A window beside the one a period earlier: value, earlier value, difference and ratio."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

HOUR = rr.tumbling("1 hour")


def orders(window=HOUR, period="1 day", updatable="0 seconds", emit="ready", **aggregates):
    """Orders per shop and hour, compared with the day before, to `out`."""
    app = rr.App("shop", pages=2)
    stream = app.stream("orders", schema="shop string, total double, at timestamp", time="at")
    grouped = stream.group_by("shop", name="hourly").window(window, updatable=updatable, emit=emit)
    aggregates = aggregates or {"n": rr.compared_to(period, rr.count())}
    grouped.agg(**aggregates).to("out")
    return Driver(app)


def test_a_window_comes_out_with_the_one_a_day_earlier():
    out = orders().run(
        orders="""
        at                   | shop
        2026-01-01T12:10:00Z | s
        2026-01-01T12:20:00Z | s
        2026-01-02T12:00:00Z | s
        2026-01-02T12:01:00Z | s
        2026-01-02T12:02:00Z | s
        2026-01-02T13:00:00Z | s
    """
    )
    out.assert_is("""
        +- | window_start         | shop | n | n_earlier | n_difference | n_ratio
        +  | 12:00                | s    | 2 |           |              |
        +  | 2026-01-02T12:00:00Z | s    | 3 | 2         | 1            | 1.5
    """)


def test_a_key_without_rows_in_the_window_has_no_row_however_much_there_was_before():
    driver = orders()
    driver.run(
        orders="""
        at                   | shop
        2026-01-01T12:10:00Z | s
        2026-01-02T12:00:00Z | t
    """
    )
    driver.end()
    assert [row["shop"] for row in driver.table("out")] == ["s", "t"]


def test_nothing_and_zero_before_have_no_ratio():
    driver = orders(
        total=rr.compared_to("1 hour", rr.sum("total")),
        least=rr.compared_to("2 h", rr.min("total")),
    )
    driver.run(
        orders="""
        at    | shop | total
        12:00 | s    | 0
        13:00 | s    | 5
        14:00 | s    | 10
        15:00 | s    |
    """
    )
    driver.end()
    found = [{k: v for k, v in row.items() if k.startswith("total")} for row in driver.table("out")]
    assert found == [
        {"total": 0, "total_earlier": None, "total_difference": None, "total_ratio": None},
        {"total": 5, "total_earlier": 0, "total_difference": 5, "total_ratio": None},
        {"total": 10, "total_earlier": 5, "total_difference": 5, "total_ratio": 2},
        {"total": None, "total_earlier": 10, "total_difference": None, "total_ratio": None},
    ]
    assert [row["least_earlier"] for row in driver.table("out")] == [None, None, 0, 5]


def test_several_periods_and_plain_aggregates_stand_side_by_side():
    driver = orders(
        n=rr.count(),
        hour=rr.compared_to("1 hour", rr.count()),
        day=rr.compared_to("1 day", rr.avg("total")),
    )
    driver.run(
        orders="""
        at                   | shop | total
        2026-01-01T12:00:00Z | s    | 4
        2026-01-02T11:00:00Z | s    | 8
        2026-01-02T11:30:00Z | s    | 8
        2026-01-02T12:00:00Z | s    | 2
    """
    )
    driver.end()
    last = driver.table("out")[-1]
    assert (last["n"], last["hour"], last["hour_earlier"], last["hour_ratio"]) == (1, 1, 2, 0.5)
    assert (last["day"], last["day_earlier"], last["day_difference"]) == (2, 4, -2)


def test_a_correction_of_the_earlier_window_corrects_the_later_one():
    driver = orders(period="1 hour", updatable="2 hours")
    driver.run(
        orders="""
        at    | shop
        12:00 | s
        13:00 | s
        13:01 | s
        14:00 | s
        -----
        12:30 | s      # one more at 12: 13 is compared with it
    """
    ).assert_is("""
        +- | window_start | n | n_earlier | n_ratio | revision
        +  | 12:00        | 1 |           |         | 0
        +  | 13:00        | 2 | 1         | 2       | 0
        -  | 12:00        | 1 |           |         | 0
        +  | 12:00        | 2 |           |         | 1
        -  | 13:00        | 2 | 1         | 2       | 0
        +  | 13:00        | 2 | 2         | 1       | 1
    """)


def test_a_straggler_that_fills_an_empty_earlier_window_gives_the_later_one_something_to_compare():
    out = orders(period="1 hour", updatable="2 hours").run(
        orders="""
        at    | shop
        13:00 | s
        14:00 | t
        -----
        12:30 | s
    """
    )
    out.assert_is("""
        +- | window_start | shop | n | n_earlier | revision
        +  | 13:00        | s    | 1 |           | 0
        +  | 12:00        | s    | 1 |           | 0
        -  | 13:00        | s    | 1 |           | 0
        +  | 13:00        | s    | 1 | 1         | 1
    """)


def test_a_late_row_changes_neither_window():
    out = orders(period="1 hour", updatable="30 minutes").run(
        orders="""
        at    | shop
        12:00 | s
        13:00 | s
        14:00 | s
        -----
        12:30 | s      # 12 closed at 13:30
    """
    )
    out.of("hourly.late").assert_is("at | shop\n 12:30 | s")
    assert [line["revision"] for line in out.of("out")] == [0, 0]


def test_emit_changes_compares_as_the_window_fills():
    out = orders(period="1 hour", emit="changes").run(
        orders="""
        at    | shop
        12:00 | s
        -----
        13:00 | s
        -----
        13:10 | s
    """
    )
    out.assert_is("""
        +- | window_start | n | n_earlier | n_ratio
        +  | 12:00        | 1 |           |
        +  | 13:00        | 1 | 1         | 1
        -  | 13:00        | 1 | 1         | 1
        +  | 13:00        | 2 | 1         | 2
    """)


def test_emit_final_compares_two_windows_that_stand():
    driver = orders(period="1 hour", emit="final", updatable="1 hour")
    driver.run(
        orders="""
        at    | shop
        12:00 | s
        13:00 | s
        -----
        12:30 | s
        14:00 | s
        -----
        15:00 | s
    """
    ).assert_is("""
        +- | window_start | n | n_earlier | revision
        +  | 12:00        | 2 |           | 0
        +  | 13:00        | 1 | 2         | 0
    """)


def test_hopping_windows_are_compared_too():
    driver = orders(rr.hopping("1 hour", "30 minutes"), period="30 minutes")
    driver.run(
        orders="""
        at    | shop
        12:10 | s
        12:40 | s
        12:50 | s
    """
    )
    driver.end()
    found = [(r["window_start"][11:16], r["n"], r["n_earlier"]) for r in driver.table("out")]
    assert found == [("11:30", 1, None), ("12:00", 3, 1), ("12:30", 2, 3)]


def test_a_local_day_is_compared_with_the_same_day_a_week_before():
    driver = orders(rr.tumbling("1 day", timezone="Europe/Berlin"), period="7 days")
    driver.run(
        orders="""
        at                   | shop
        2026-03-22T22:30:00Z | s      # 22 March, 23:30
        2026-03-29T21:30:00Z | s      # 29 March, 23:30, the clocks have changed
    """
    )
    driver.end()
    assert [row["n_earlier"] for row in driver.table("out")] == [None, 1]


def test_an_unusually_high_value_is_a_condition_away():
    app = rr.App("shop", pages=1)
    stream = app.stream("orders", schema="shop string, at timestamp", time="at")
    grouped = stream.group_by("shop").window(HOUR, updatable="2 hours")
    table = grouped.agg(n=rr.compared_to("1 hour", rr.count()))
    table.where("n_ratio > 2").to("alerts")
    Driver(app).run(
        orders="""
        at    | shop
        12:00 | s
        13:00 | s
        13:10 | s
        13:20 | s
        14:00 | t
        -----
        12:30 | s      # now it is three after two
    """
    ).assert_is("""
        +- | window_start | shop | n | n_earlier | n_ratio
        +  | 13:00        | s    | 3 | 1         | 3
        -  | 13:00        | s    | 3 | 1         | 3
    """)


STORY = """
    at    | shop
    12:00 | s
    13:00 | s
    14:00 | s
    -----
    12:30 | s
    12:31 | t
    -----
    16:00 | s
    -----
    12:10 | s      # late
    15:10 | s
    -----
    20:00 | t
"""


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
def test_crashes_restarts_and_replays_change_nothing(emit):
    lines = assert_mishaps_change_nothing(
        lambda: orders(period="1 hour", updatable="2 hours", emit=emit), "orders", STORY
    )
    assert {line["output"] for line in lines} == {"out", "hourly.late"}


def test_state_is_kept_as_long_as_a_window_may_be_compared_and_no_longer():
    driver = orders(period="3 hours")

    def kept():
        return sum(len(store.data) for store in driver.checkpoint.stores.values())

    driver.run(orders="at | shop\n 12:00 | s\n ---\n 15:59 | s")
    assert kept() > 0
    driver.run(orders="at | shop\n 16:00 | t")
    assert [line["value"]["n_earlier"] for line in driver.outputs["out"]] == [None, 1]
    driver.run(orders="at | shop\n 23:00 | t")
    driver.restart()
    assert driver.batch() == []
    assert kept() == 1  # 23:00 itself
