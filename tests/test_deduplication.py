"""Deduplication: of rows with the same values within a period, the first passes."""

from __future__ import annotations

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "id string, page string, at timestamp"


def once(within="10 minutes", columns=("id",), **options):
    """Orders without their duplicates, to `out`."""
    app = rr.App("shop", pages=2)
    stream = app.stream("orders", schema=SCHEMA, time="at", **options)
    stream.deduplicate(*columns, within=within, name="once").to("out")
    return Driver(app)


def test_the_first_row_passes_at_once_and_its_duplicates_do_not():
    out = once().run(
        orders="""
        at    | id | page
        12:00 | a  | /1
        12:01 | a  | /2      # the same batch
        12:01 | b  | /3
        -----
        12:05 | a  | /4      # a later one
    """
    )
    out.assert_is("""
        +- | at    | id | page
        +  | 12:00 | a  | /1
        +  | 12:01 | b  | /3
    """)


def test_the_period_counts_from_the_row_that_passed_and_its_end_is_not_in_it():
    out = once().run(
        orders="""
        at       | id
        12:00    | a
        12:09:59 | a      # a duplicate, which does not make the period longer
        -----
        12:10    | a      # ten minutes after the one that passed
        -----
        12:19:59 | a
    """
    )
    out.assert_is("""
        at    | id
        12:00 | a
        12:10 | a
    """)


def test_a_row_that_comes_out_of_order_is_a_duplicate_of_a_later_one():
    """What has passed cannot be taken back: a stream is facts."""
    out = once(lateness="10 minutes").run(
        orders="""
        at    | id
        12:05 | a
        -----
        12:00 | a      # earlier, but it came second
        11:55 | a      # ten minutes before
    """
    )
    out.assert_is("""
        at    | id
        12:05 | a
        11:55 | a
    """)


def test_within_a_batch_the_first_is_the_one_with_the_earliest_time():
    out = once().run(
        orders="""
        at    | id | page
        12:05 | a  | /late
        12:00 | a  | /early
    """
    )
    out.assert_is("at | page\n 12:00 | /early")


def test_several_columns_must_be_the_same_and_null_is_a_value():
    out = once(columns=("id", "page")).run(
        orders="""
        at    | id | page
        12:00 | a  | /1
        12:01 | a  | /2
        12:02 |    | /1
        12:03 |    | /1
        12:04 | a  | /1
    """
    )
    out.assert_is("""
        at    | id | page
        12:00 | a  | /1
        12:01 | a  | /2
        12:02 |    | /1
    """)


def test_a_row_is_late_when_its_duplicate_may_have_been_forgotten():
    driver = once()
    out = driver.run(
        orders="""
        at       | id | page
        12:00    | a  | /1
        12:10    | b  | /2
        -----
        12:00    | c  | /3      # ten minutes behind the clock: nobody can tell
        12:00:01 | d  | /4      # less
    """
    )
    out.of("once.late").assert_is("""
        at    | id | page
        12:00 | c  | /3
    """)
    assert [line["value"]["id"] for line in out.of("out")] == ["a", "b", "d"]
    assert driver.status.late == {"once": 1}


def test_late_rows_are_a_stream_of_their_own():
    app = rr.App("shop", pages=1)
    stream = app.stream("orders", schema=SCHEMA, time="at")
    unique = stream.deduplicate("id", within="1 minute")
    unique.to("out")
    unique.late.select("id").to("check")
    out = Driver(app).run(orders="at | id\n 12:10 | a\n ---\n 12:00 | b")
    out.of("check").assert_is("id\n b")


def test_a_row_is_known_for_as_long_as_a_duplicate_in_time_can_come():
    out = once(within="10 seconds").run(
        orders="""
        at         | id
        12:00:19   | a
        -----
        12:00:30.5 | z
        -----
        12:00:20.6 | a      # in time, and 1.6 seconds after the first
    """
    )
    out.assert_is("""
        at         | id
        12:00:19   | a
        2026-01-01T12:00:30.500000Z | z
    """)


def test_what_no_row_can_repeat_is_forgotten():
    driver = once(within="1 minute")
    for minute in range(60):
        at = f"2026-01-01T12:{minute:02}:00Z"
        driver.send("orders", {"at": at, "id": f"x{minute % 2}"})
        driver.batch()
    assert len(driver.outputs["out"]) == 60
    assert sum(len(store.data) for store in driver.checkpoint.stores.values()) < 12


def test_the_key_and_columns_stay_as_they_were():
    app = rr.App("shop", pages=1)
    stream = app.stream("orders", schema=SCHEMA, time="at", key="page")
    unique = stream.deduplicate("id", within="1 minute")
    unique.to("out")
    assert unique.columns == ("id", "page", "at")
    assert unique.node.name == "orders_once_by_id"
    assert Driver(app).run(orders="at | id | page\n 12:00 | a | /x")[0]["key"] == "/x"


def test_crashes_restarts_and_replays_change_nothing():
    lines = assert_mishaps_change_nothing(
        once,
        "orders",
        """
        at    | id
        12:00 | a
        12:01 | b
        -----
        12:02 | a
        12:12 | b
        -----
        12:09 | a      # a duplicate of 12:00
        12:00 | c      # late
        -----
        12:10 | a
    """,
    )
    lines.assert_is("""
        output    | at    | id
        out       | 12:00 | a
        out       | 12:01 | b
        out       | 12:12 | b
        once.late | 12:00 | c
        out       | 12:10 | a
    """)
