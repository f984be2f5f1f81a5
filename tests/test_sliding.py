"""Sliding windows: for each row, what the rows of its key up to it amount to."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "card string, amount bigint, at timestamp"


def spent(updatable="0 seconds", emit="ready", **options):
    """What each card has spent within ten minutes, at each payment, to `out`."""
    app = rr.App("bank", pages=2)
    payments = app.stream("payments", schema=SCHEMA, time="at", **options)
    window = payments.group_by("card", name="spent").window(
        rr.sliding("10 minutes"), updatable=updatable, emit=emit
    )
    window.agg(n=rr.count(), total=rr.sum("amount")).to("out")
    return Driver(app)


def test_every_row_comes_out_with_what_led_up_to_it():
    driver = spent()
    driver.run(
        payments="""
        at    | card | amount
        12:00 | c1   | 10
        12:04 | c2   | 5
        12:09 | c1   | 20
        12:12 | c1   | 40      # 12:00 is more than ten minutes ago
    """
    )
    driver.end()
    rows = driver.table("out")
    assert [(row["at"][11:16], row["card"], row["amount"], row["total"]) for row in rows] == [
        ("12:00", "c1", 10, 10),
        ("12:04", "c2", 5, 5),
        ("12:09", "c1", 20, 30),
        ("12:12", "c1", 40, 60),
    ]


def test_a_row_comes_out_when_the_clock_is_past_its_time():
    driver = spent()
    driver.run(
        payments="""
        at    | card | amount
        12:00 | c1   | 10
        12:01 | c1   | 20
    """
    ).assert_is("""
        +- | window_start | window_end | at    | card | n | total
        +  | 11:50        | 12:00      | 12:00 | c1   | 1 | 10
    """)
    driver.end().assert_is("""
        window_start | window_end | at    | card | n | total
        11:51        | 12:01      | 12:01 | c1   | 2 | 30
    """)


def test_a_row_exactly_the_size_ago_is_out_and_one_of_the_same_moment_is_in():
    driver = spent()
    out = driver.run(
        payments="""
        at       | card | amount
        12:00    | c1   | 1
        12:00:01 | c1   | 2
        12:10    | c1   | 4
        12:10    | c1   | 8
    """
    )
    out += driver.end()
    out.assert_is("""
        at       | amount | n | total
        12:00    | 1      | 1 | 1
        12:00:01 | 2      | 2 | 3
        12:10    | 4      | 3 | 14
        12:10    | 8      | 3 | 14
    """)


def test_a_straggler_comes_out_itself_and_corrects_the_rows_after_it():
    out = spent(updatable="1 hour").run(
        payments="""
        at    | card | amount
        12:00 | c1   | 1
        12:06 | c1   | 2
        12:14 | c1   | 4
        12:15 | c2   | 9
        -----
        12:05 | c1   | 8      # in the ten minutes before 12:06 and 12:14
    """
    )
    out.assert_is("""
        +- | at    | card | n | total | revision
        +  | 12:00 | c1   | 1 | 1     | 0
        +  | 12:06 | c1   | 2 | 3     | 0
        +  | 12:14 | c1   | 2 | 6     | 0
        +  | 12:05 | c1   | 2 | 9     | 0
        -  | 12:06 | c1   | 2 | 3     | 0
        +  | 12:06 | c1   | 3 | 11    | 1
        -  | 12:14 | c1   | 2 | 6     | 0
        +  | 12:14 | c1   | 3 | 14    | 1
    """)


def test_a_row_is_late_when_its_own_time_is_past():
    out = spent(updatable="5 minutes").run(
        payments="""
        at       | card | amount
        12:10    | c1   | 1
        -----
        12:05    | c1   | 2      # the last moment
        12:04:59 | c1   | 4      # late: no row counts it
    """
    )
    out.of("spent.late").assert_is("""
        at       | card | amount
        12:04:59 | c1   | 4
    """)
    out.of("out").assert_is("""
        at    | n | total
        12:05 | 1 | 2
    """)


def test_the_key_of_a_row_is_its_event():
    app = rr.App("bank", pages=1)
    payments = app.stream("payments", schema="card string, at timestamp", time="at")
    table = payments.group_by("card").window(rr.sliding("1 hour")).agg(n=rr.count())
    assert table.key == ("event",)
    assert table.columns == ("card", "at", "window_start", "window_end", "event", "n")


def test_emit_changes_shows_a_row_in_the_batch_it_came_with():
    out = spent(emit="changes", updatable="1 hour").run(
        payments="""
        at    | card | amount
        12:05 | c1   | 1
        -----
        12:01 | c1   | 2
    """
    )
    out.assert_is("""
        +- | at    | n | total | revision
        +  | 12:05 | 1 | 1     | 0
        +  | 12:01 | 1 | 2     | 0
        -  | 12:05 | 1 | 1     | 0
        +  | 12:05 | 2 | 3     | 1
    """)


def test_emit_final_waits_until_a_row_can_no_longer_change():
    driver = spent(emit="final", updatable="5 minutes")
    driver.run(
        payments="""
        at       | card | amount
        12:01    | c1   | 1
        12:05    | c2   | 1
        -----
        12:00:30 | c1   | 2
        12:06    | c2   | 1
        -----
        12:06:01 | c2   | 1
    """
    ).assert_is("""
        +- | at       | card | n | total
        +  | 12:00:30 | c1   | 1 | 2
        +  | 12:01    | c1   | 2 | 3
    """)


STORY = """
    at    | card | amount
    12:00 | c1   | 1
    12:06 | c1   | 2
    12:14 | c2   | 4
    -----
    12:05 | c1   | 8
    12:20 | c2   | 4
    -----
    12:04 | c1   | 16
    11:00 | c1   | 32      # late
    -----
    12:50 | c2   | 4
"""


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
def test_crashes_restarts_and_replays_change_nothing(emit):
    lines = assert_mishaps_change_nothing(
        lambda: spent(updatable="30 minutes", emit=emit), "payments", STORY
    )
    assert {line["output"] for line in lines} == {"out", "spent.late"}


def test_state_is_forgotten_when_no_row_can_need_it():
    driver = spent()
    for hour in range(12, 15):
        for minute in range(0, 60, 2):
            at = f"2026-01-01T{hour}:{minute:02}:00Z"
            driver.send("payments", {"at": at, "card": "c1", "amount": 1})
            driver.batch()
    kept = sum(len(store.data) for store in driver.checkpoint.stores.values())
    assert kept < 12
    assert driver.outputs["out"][-1]["value"]["n"] == 5
