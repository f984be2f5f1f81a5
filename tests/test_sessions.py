"""Sessions: rows of a key with no gap between them, that grow, join and close."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "user string, page string, at timestamp"


def visits(updatable="0 seconds", emit="ready", **options):
    """Visits of a user, ended by ten minutes without a click, to `out`."""
    app = rr.App("shop", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at", **options)
    window = clicks.group_by("user", name="visits").window(
        rr.session("10 minutes"), updatable=updatable, emit=emit
    )
    window.agg(n=rr.count(), first=rr.first("page"), last=rr.last("page")).to("out")
    return Driver(app)


def test_a_session_ends_the_gap_after_its_last_row():
    out = visits().run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:09 | ann  | /b
        12:12 | bob  | /c
        -----
        12:19 | bob  | /d      # the clock is 12:19: ann has been gone for ten minutes
    """
    )
    out.assert_is("""
        +- | window_start | window_end | user | n | first | last
        +  | 12:00        | 12:19      | ann  | 2 | /a    | /b
    """)


def test_a_gap_of_exactly_the_gap_starts_a_new_session():
    driver = visits()
    out = driver.run(
        clicks="""
        at       | user | page
        12:00    | ann  | /a
        12:10    | ann  | /b      # ten minutes: another session
        12:19:59 | ann  | /c      # a second less: the same
    """
    )
    out += driver.end()
    out.assert_is("""
        window_start | window_end | user | n | first | last
        12:00        | 12:10      | ann  | 1 | /a    | /a
        12:10        | 12:29:59   | ann  | 2 | /b    | /c
    """)


def test_a_straggler_joins_two_sessions():
    out = visits(updatable="1 hour").run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:15 | ann  | /c
        12:25 | bob  | /x      # both sessions of ann are out
        -----
        12:07 | ann  | /b      # less than ten minutes from either
    """
    )
    out.assert_is("""
        +- | window_start | window_end | user | n | first | last | revision
        +  | 12:00        | 12:10      | ann  | 1 | /a    | /a   | 0
        +  | 12:15        | 12:25      | ann  | 1 | /c    | /c   | 0
        -  | 12:00        | 12:10      | ann  | 1 | /a    | /a   | 0
        +  | 12:00        | 12:25      | ann  | 3 | /a    | /c   | 1
        -  | 12:15        | 12:25      | ann  | 1 | /c    | /c   | 0
    """)


def test_a_straggler_before_a_session_moves_its_start_so_the_row_has_another_key():
    driver = visits(updatable="1 hour")
    out = driver.run(
        clicks="""
        at    | user | page
        12:05 | ann  | /b
        12:15 | bob  | /x
        -----
        12:00 | ann  | /a
    """
    )
    out.assert_is("""
        +- | window_start | window_end | user | n | revision
        +  | 12:05        | 12:15      | ann  | 1 | 0
        +  | 12:00        | 12:15      | ann  | 2 | 1
        -  | 12:05        | 12:15      | ann  | 1 | 0
    """)
    assert [row["n"] for row in driver.table("out")] == [2]


def test_a_straggler_that_lengthens_a_session_that_is_out_takes_it_back_until_its_new_end():
    driver = visits(updatable="1 hour")
    driver.run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:12 | bob  | /x
        -----
        12:09 | ann  | /b      # now it ends at 12:19, which is not reached
    """
    ).assert_is("""
        +- | window_start | window_end | user | n | revision
        +  | 12:00        | 12:10      | ann  | 1 | 0
        -  | 12:00        | 12:10      | ann  | 1 | 0
    """)
    driver.run(clicks="at | user | page\n 12:19 | bob | /y").assert_is("""
        +- | window_start | window_end | user | n | revision
        +  | 12:00        | 12:19      | ann  | 2 | 1
    """)


def test_a_row_is_late_when_it_touches_a_session_that_has_closed():
    out = visits().run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:10 | bob  | /x      # closes the session of ann
        -----
        12:09 | ann  | /b      # its own session would be open, but it touches a closed one
        12:09 | cid  | /c      # alone: it ends at 12:19, in time
    """
    )
    out.of("visits.late").assert_is("""
        at    | user | page
        12:09 | ann  | /b
    """)


def test_a_row_is_late_when_it_would_be_a_closed_session_by_itself():
    out = visits().run(
        clicks="""
        at       | user | page
        12:10    | bob  | /x
        -----
        12:00    | ann  | /a      # its session would have closed at 12:10
        12:00:01 | cid  | /c      # a second later: open
    """
    )
    out.assert_is("""
        output      | at    | user | page
        visits.late | 12:00 | ann  | /a
    """)


def test_an_old_row_inside_an_open_session_is_in_time():
    driver = visits()
    driver.run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:09 | ann  | /c
        12:18 | ann  | /d
        -----
        12:05 | ann  | /b      # alone it would have closed at 12:15
    """
    )
    driver.end().assert_is("""
        window_start | window_end | user | n
        12:00        | 12:28      | ann  | 4
    """)


def test_emit_changes_shows_a_session_as_it_grows():
    out = visits(emit="changes").run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        -----
        12:05 | ann  | /b
        -----
        12:30 | ann  | /c
    """
    )
    out.assert_is("""
        +- | window_start | window_end | user | n | revision
        +  | 12:00        | 12:10      | ann  | 1 | 0
        -  | 12:00        | 12:10      | ann  | 1 | 0
        +  | 12:00        | 12:15      | ann  | 2 | 1
        +  | 12:30        | 12:40      | ann  | 1 | 0
    """)


def test_emit_final_comes_out_once_when_the_session_closes():
    out = visits(updatable="5 minutes", emit="final").run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:12 | bob  | /x
        -----
        12:08 | ann  | /b      # ready since 12:10, and not closed yet: it ends at 12:18 now
        12:22 | bob  | /y
        -----
        12:23 | bob  | /z      # five minutes after 12:18
        -----
        12:09 | ann  | /c
    """
    )
    out.of("out").assert_is("""
        +- | window_start | window_end | user | n | revision
        +  | 12:00        | 12:18      | ann  | 2 | 0
    """)
    out.of("visits.late").assert_is("at | user\n 12:09 | ann")


def test_sessions_close_when_the_input_goes_quiet():
    driver = visits(idle="10 seconds")
    driver.run(clicks="at | user | page\n 12:00 | ann | /a")
    assert driver.pass_time("9 minutes 59 seconds") == []
    driver.pass_time("1 second").assert_is("""
        window_start | window_end | user | n
        12:00        | 12:10      | ann  | 1
    """)


def test_rate_is_per_second_of_the_session_with_its_gap():
    app = rr.App("shop", pages=1)
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    clicks.group_by("user").window(rr.session("10 seconds")).agg(speed=rr.rate()).to("out")
    driver = Driver(app)
    driver.run(clicks="at | user\n 12:00:00 | ann\n 12:00:05 | ann\n 12:00:10 | ann")
    driver.end().assert_is("""
        window_start | window_end | speed
        12:00        | 12:00:20   | 0.15
    """)


STORY = """
    at    | user | page
    12:00 | ann  | /a
    12:15 | ann  | /c
    12:25 | bob  | /x
    -----
    12:07 | ann  | /b
    12:32 | bob  | /y
    -----
    12:20 | ann  | /d
    11:00 | ann  | /z      # late
    -----
    13:30 | bob  | /y
"""


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
def test_crashes_restarts_and_replays_change_nothing(emit):
    lines = assert_mishaps_change_nothing(
        lambda: visits(updatable="30 minutes", emit=emit), "clicks", STORY
    )
    assert {line["output"] for line in lines} == {"out", "visits.late"}
