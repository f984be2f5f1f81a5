"""Hopping windows: every row counts in several, state is kept once."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "page string, ms bigint, at timestamp"
TEN = rr.hopping("10 minutes", "5 minutes")


def per_page(window=TEN, updatable="0 seconds", emit="ready", **options):
    """Clicks per page and window, to `out`."""
    app = rr.App("shop", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at", **options)
    grouped = clicks.group_by("page", name="pages")
    grouped.window(window, updatable=updatable, emit=emit).agg(n=rr.count()).to("out")
    return Driver(app)


def test_a_row_counts_in_every_window_that_it_falls_into():
    driver = per_page()
    out = driver.run(
        clicks="""
        at    | page
        12:03 | /a
        12:07 | /a
    """
    )
    out += driver.end()
    out.assert_is("""
        +- | window_start | window_end | page | n
        +  | 11:55        | 12:05      | /a   | 1
        +  | 12:00        | 12:10      | /a   | 2
        +  | 12:05        | 12:15      | /a   | 1
    """)


def test_each_window_comes_out_when_its_own_end_has_passed():
    driver = per_page()
    driver.run(
        clicks="""
        at    | page
        12:03 | /a
        12:05 | /b      # the clock passes 12:05
    """
    ).assert_is("""
        +- | window_start | page | n
        +  | 11:55        | /a   | 1
    """)
    driver.run(
        clicks="""
        at    | page
        12:10 | /b
    """
    ).assert_is("""
        +- | window_start | page | n
        +  | 12:00        | /a   | 1
        +  | 12:00        | /b   | 1
    """)


def test_a_row_is_late_when_one_of_its_windows_has_closed_and_then_counts_in_none():
    out = per_page().run(
        clicks="""
        at    | page
        12:05 | /a      # closes 11:55
        -----
        12:04 | /a      # belongs to 11:55, which is closed, and to 12:00, which is not
        12:06 | /a
        -----
        12:10 | /a
    """
    )
    out.of("pages.late").assert_is("""
        at    | page
        12:04 | /a
    """)
    out.of("out").assert_is("""
        window_start | page | n
        12:00        | /a   | 2
    """)


def test_a_straggler_corrects_the_windows_that_were_out_and_only_those():
    out = per_page(updatable="10 minutes").run(
        clicks="""
        at    | page
        12:01 | /a
        12:06 | /a      # 11:55 comes out
        -----
        12:02 | /a      # corrects 11:55; 12:00 is still to come
        -----
        12:11 | /a
        -----
        12:03 | /a      # corrects both
    """
    )
    out.assert_is("""
        +- | window_start | page | n | revision
        +  | 11:55        | /a   | 1 | 0
        -  | 11:55        | /a   | 1 | 0
        +  | 11:55        | /a   | 2 | 1
        +  | 12:00        | /a   | 3 | 0
        -  | 11:55        | /a   | 2 | 1
        +  | 11:55        | /a   | 3 | 2
        -  | 12:00        | /a   | 3 | 0
        +  | 12:00        | /a   | 4 | 1
    """)


def test_a_key_that_is_new_in_a_window_that_is_out_begins_at_revision_0():
    out = per_page(updatable="10 minutes").run(
        clicks="""
        at    | page
        12:06 | /a
        -----
        12:02 | /b
    """
    )
    out.assert_is("""
        +- | window_start | page | n | revision
        +  | 11:55        | /b   | 1 | 0
    """)


def test_emit_changes_shows_all_windows_of_a_row_at_once():
    out = per_page(emit="changes").run(
        clicks="""
        at    | page
        12:03 | /a
        -----
        12:06 | /a
    """
    )
    out.assert_is("""
        +- | window_start | page | n | revision
        +  | 11:55        | /a   | 1 | 0
        +  | 12:00        | /a   | 1 | 0
        -  | 12:00        | /a   | 1 | 0
        +  | 12:00        | /a   | 2 | 1
        +  | 12:05        | /a   | 1 | 0
    """)


def test_emit_final_comes_out_once_when_the_window_closes():
    out = per_page(updatable="10 minutes", emit="final").run(
        clicks="""
        at    | page
        12:01 | /a
        12:06 | /a
        -----
        12:02 | /a      # in time
        12:15 | /a      # closes 11:55
        -----
        12:04 | /a      # late
    """
    )
    out.of("out").assert_is("""
        +- | window_start | page | n | revision
        +  | 11:55        | /a   | 2 | 0
    """)
    out.of("pages.late").assert_is("at | page\n 12:04 | /a")


def test_a_size_that_is_no_multiple_of_the_hop_is_fine():
    driver = per_page(rr.hopping("10 minutes", "4 minutes"))
    driver.run(
        clicks="""
        at    | page
        12:09 | /a
    """
    )
    driver.end().assert_is("""
        window_start | window_end | n
        12:00        | 12:10      | 1
        12:04        | 12:14      | 1
        12:08        | 12:18      | 1
    """)


def test_an_offset_moves_where_windows_begin():
    driver = per_page(rr.hopping("10 minutes", "5 minutes", offset="2 minutes"))
    driver.run(
        clicks="""
        at    | page
        12:01 | /a
    """
    )
    driver.end().assert_is("""
        window_start | window_end
        11:52        | 12:02
        11:57        | 12:07
    """)


def test_a_hop_as_long_as_the_size_is_a_tumbling_window():
    assert rr.hopping("5 minutes", "5 minutes") == rr.tumbling("5 minutes")


STORY = """
    at    | page
    12:01 | /a
    12:06 | /b
    -----
    12:02 | /a
    12:11 | /a
    -----
    12:03 | /a
    11:00 | /a      # late
    -----
    12:40 | /b
"""


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
def test_crashes_restarts_and_replays_change_nothing(emit):
    lines = assert_mishaps_change_nothing(
        lambda: per_page(updatable="10 minutes", emit=emit), "clicks", STORY
    )
    assert {line["output"] for line in lines} == {"out", "pages.late"}
