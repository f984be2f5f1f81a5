"""Windows: when results come out, how they are corrected, and what is late."""

from __future__ import annotations

import riverrun as rr
from riverrun.testing import Driver

SCHEMA = "page string, user string, ms bigint, at timestamp"
FIVE = rr.tumbling("5 minutes")


def clicks(app, topic="clicks", **options):
    return app.stream(topic, schema=SCHEMA, time="at", **options)


def per_page(updatable="0 seconds", emit="ready", **options):
    """Clicks per page and five minutes, to `out`."""
    app = rr.App("shop", pages=2)
    grouped = clicks(app, **options).group_by("page", name="pages")
    grouped.window(FIVE, updatable=updatable, emit=emit).agg(clicks=rr.count()).to("out")
    return Driver(app)


def test_a_window_comes_out_once_when_it_is_ready():
    out = per_page().run(
        clicks="""
        at       | page
        12:00    | /a
        12:01    | /b
        12:04:59 | /a
        -----
        12:05    | /a      # the clock passes 12:05
        -----
        12:09    | /a
    """
    )
    out.assert_is("""
        +- | window_start | window_end | page | clicks | revision
        +  | 12:00        | 12:05      | /a   | 2      | 0
        +  | 12:00        | 12:05      | /b   | 1      | 0
    """)


def test_lateness_holds_the_clock_back():
    driver = per_page(lateness="1 minute")
    driver.run(
        clicks="""
        at       | page
        12:00    | /a
        12:05:59 | /a
        -----
        12:04    | /a      # out of order, but not late
    """
    ).assert_is("+- | page")
    driver.run(
        clicks="""
        at    | page
        12:06 | /a
    """
    ).assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 2
    """)


def test_a_straggler_within_the_updatable_period_corrects_the_window():
    out = per_page(updatable="10 minutes").run(
        clicks="""
        at    | page
        12:00 | /a
        12:11 | /a      # moves the clock past 12:05
        -----
        12:01 | /a      # late, still updatable
        12:02 | /b      # new in a window that is out already
        -----
        12:03 | /a
    """
    )
    out.assert_is("""
        +- | window_start | page | clicks | revision
        +  | 12:00        | /a   | 1      | 0
        -  | 12:00        | /a   | 1      | 0
        +  | 12:00        | /a   | 2      | 1
        +  | 12:00        | /b   | 1      | 0
        -  | 12:00        | /a   | 2      | 1
        +  | 12:00        | /a   | 3      | 2
    """)


def test_a_window_closes_at_the_very_moment_its_period_ends():
    driver = per_page(updatable="5 minutes")
    driver.run(
        clicks="""
        at       | page
        12:09:59 | /b
        -----
        12:04:59 | /a      # the last moment
        12:10    | /b
    """
    ).assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 1
        +  | 12:05        | /b   | 1
    """)
    driver.run(
        clicks="""
        at    | page
        12:04 | /a
        12:05 | /b
    """
    ).of("pages.late").assert_is("""
        at    | page
        12:04 | /a
    """)


def test_rows_are_judged_by_the_clock_before_their_batch():
    out = per_page().run(
        clicks="""
        at    | page
        12:11 | /a
        12:00 | /a      # after 12:11, but in the same batch
    """
    )
    out.assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 1
    """)


def test_emit_changes_comes_out_at_every_batch():
    out = per_page(emit="changes").run(
        clicks="""
        at    | page
        12:00 | /a
        12:01 | /a
        -----
        12:02 | /a
        12:06 | /b
        -----
        12:03 | /a      # late: its window has closed
    """
    )
    out.of("out").assert_is("""
        +- | window_start | page | clicks | revision
        +  | 12:00        | /a   | 2      | 0
        -  | 12:00        | /a   | 2      | 0
        +  | 12:00        | /a   | 3      | 1
        +  | 12:05        | /b   | 1      | 0
    """)
    out.of("pages.late").assert_is("""
        at    | page
        12:03 | /a
    """)


def test_emit_final_comes_out_once_when_the_window_closes():
    out = per_page(updatable="5 minutes", emit="final").run(
        clicks="""
        at    | page
        12:00 | /a
        12:06 | /a
        -----
        12:01 | /a      # in time to be counted
        12:10 | /a      # closes 12:00
        -----
        12:02 | /a      # late
    """
    )
    out.of("out").assert_is("""
        +- | window_start | page | clicks | revision
        +  | 12:00        | /a   | 2      | 0
    """)
    out.of("pages.late").assert_is("""
        at    | page
        12:02 | /a
    """)


def test_late_rows_leave_with_all_their_columns_and_key():
    app = rr.App("shop", pages=2)
    slow = clicks(app, key="user").with_columns(seconds="ms / 1000")
    slow.group_by("page", name="pages").window(FIVE).agg(n=rr.count()).to("out")
    driver = Driver(app)
    out = driver.run(
        clicks="""
        at    | page | user | ms
        12:11 | /a   | u    |
        -----
        12:00 | /a   | v    | 2500
        12:01 |      |      |
    """
    )
    out.assert_is("""
        output     | +- | key | page | user | ms   | at    | seconds
        pages.late | +  | v   | /a   | v    | 2500 | 12:00 | 2.5
        pages.late | +  |     |      |      |      | 12:01 |
    """)
    assert driver.status.late == {"pages": 2}


def test_after_a_restart_late_rows_are_still_late_and_whole():
    driver = per_page()
    driver.run(
        clicks="""
        at    | page | user
        12:00 | /a   | u
        12:11 | /a   | u
    """
    )
    driver.restart()
    driver.run(
        clicks="""
        at    | page | user
        12:01 | /a   | v
        12:12 | /a   | v
    """
    ).assert_is("""
        output     | at    | page | user
        pages.late | 12:01 | /a   | v
    """)
    driver.end().assert_is("""
        +- | window_start | page | clicks
        +  | 12:10        | /a   | 2
    """)


def test_a_crash_leaves_nothing_behind():
    driver = per_page(emit="changes")
    driver.run(
        clicks="""
        at    | page
        12:00 | /a
    """
    )
    driver.send("clicks", {"at": "2026-01-01T12:01:00Z", "page": "/a"})
    driver.crash()
    driver.batch().assert_is("""
        +- | page | clicks | revision
        -  | /a   | 1      | 0
        +  | /a   | 2      | 1
    """)


def test_windows_close_when_the_input_goes_quiet():
    driver = per_page(lateness="30 seconds", idle="10 seconds")
    driver.run(
        clicks="""
        at    | page
        12:04 | /a
    """
    )
    driver.pass_time("1 minute").assert_is("+- | page")
    driver.pass_time("30 seconds").assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 1
    """)


def test_a_quiet_partition_does_not_hold_back_the_others():
    driver = per_page()
    driver.run(
        clicks="""
        at    | page | _partition
        12:00 | /a   | 0
        12:00 | /a   | 1
        -----
        12:11 | /a   | 0
    """
    ).assert_is("+- | page")
    driver.tick += 10_000_000
    driver.run(
        clicks="""
        at    | page | _partition
        12:12 | /b   | 0
    """
    ).assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 2
    """)


def test_the_end_of_the_input_closes_every_window():
    driver = per_page(updatable="1 day", emit="final", lateness="1 day")
    driver.run(
        clicks="""
        at    | page
        12:00 | /a
        12:07 | /a
    """
    )
    driver.end().assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 1
        +  | 12:05        | /a   | 1
    """)
    assert driver.end() == []


def test_windows_before_1970_are_cut_at_the_same_places():
    driver = per_page()
    driver.run(
        clicks="""
        at                   | page
        1969-12-31T23:59:59Z | /a
        1969-12-31T23:55:00Z | /a
        1969-12-31T23:54:59Z | /a
        1970-01-01T00:00:00Z | /a
    """
    )
    driver.end()
    assert [(row["window_start"], row["clicks"]) for row in driver.table("out")] == [
        ("1969-12-31T23:50:00Z", 1),
        ("1969-12-31T23:55:00Z", 2),
        ("1970-01-01T00:00:00Z", 1),
    ]


def test_late_rows_are_a_stream_like_any_other():
    app = rr.App("shop", pages=2)
    table = clicks(app).group_by("page", name="pages").window(FIVE).agg(n=rr.count())
    table.to("out")
    table.late.where("ms > 1").select("page", twice="ms * 2").to("missed")
    driver = Driver(app)
    driver.run(
        clicks="""
        at    | page | ms
        12:11 | /a   | 1
        -----
        12:00 | /a   | 1
        12:00 | /b   | 2
    """
    ).assert_is("""
        output | +- | page | twice
        missed | +  | /b   | 4
    """)
    assert list(driver.outputs) == ["out", "missed", "dead"]


def test_time_matters_without_input_only_while_windows_are_open():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(n=rr.count()).to("for_ever")
    driver = Driver(app)
    driver.run(
        clicks="""
        at    | page
        12:00 | /a
    """
    )
    assert not driver.status.open
