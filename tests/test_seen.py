"""Seen before: a mark on rows whose values came earlier, in memory of fixed size."""

from __future__ import annotations

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "user string, page string, at timestamp"


def marked(*columns, pages=2, **options):
    app = rr.App("shop", pages=pages)
    stream = app.stream("clicks", schema=SCHEMA, time="at")
    stream.mark_seen(*(columns or ("user",)), **options).to("out")
    return Driver(app)


def test_the_first_row_of_a_value_is_new_and_all_others_are_seen():
    out = marked().run(
        clicks="""
        at    | user
        12:00 | ann
        12:01 | bob
        12:02 | ann
        -----
        12:03 | bob
        12:04 | cid
    """
    )
    out.assert_is("""
        at    | user | seen
        12:00 | ann  | false
        12:01 | bob  | false
        12:02 | ann  | true
        12:03 | bob  | true
        12:04 | cid  | false
    """)


def test_within_a_batch_time_decides_which_row_is_the_first():
    out = marked().run(
        clicks="""
        at    | user
        12:05 | ann
        12:00 | ann
    """
    )
    out.assert_is("""
        at    | seen
        12:00 | false
        12:05 | true
    """)


def test_between_batches_it_is_what_came_first_and_nothing_is_late():
    out = marked().run(
        clicks="""
        at    | user
        12:05 | ann
        -----
        09:00 | ann      # earlier, but it came second
        09:00 | bob
    """
    )
    out.assert_is("""
        at    | user | seen
        12:05 | ann  | false
        09:00 | ann  | true
        09:00 | bob  | false
    """)


def test_several_columns_are_one_value_and_the_mark_has_the_name_one_gives_it():
    out = marked("user", "page", into="returning").run(
        clicks="""
        at    | user | page
        12:00 | ann  | /a
        12:01 | ann  | /b
        12:02 | ann  | /a
        12:03 |      | /a
        12:04 |      | /a
    """
    )
    out.assert_is("""
        at    | user | page | returning
        12:00 | ann  | /a   | false
        12:01 | ann  | /b   | false
        12:02 | ann  | /a   | true
        12:03 |      | /a   | false
        12:04 |      | /a   | true
    """)


def test_new_users_are_counted_per_day():
    app = rr.App("shop", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    news = clicks.mark_seen("user").with_columns(all="'all'")
    day = news.group_by("all").window(rr.tumbling("1 hour"))
    day.agg(clicks=rr.count(), new=rr.sum("not seen")).to("out")
    driver = Driver(app)
    out = driver.run(
        clicks="""
        at    | user
        12:00 | ann
        12:01 | bob
        12:30 | ann
        -----
        13:00 | ann
        13:30 | cid
    """
    )
    out += driver.end()
    out.assert_is("""
        window_start | clicks | new
        12:00        | 3      | 2
        13:00        | 2      | 1
    """)


def test_a_value_that_was_seen_is_never_taken_for_new_and_few_new_ones_for_seen():
    driver = marked(capacity=2000, error=0.01, pages=4)
    users = [{"user": f"u{n}", "at": "2026-01-01T12:00:00Z"} for n in range(2000)]
    driver.send("clicks", *users)
    first = driver.batch()
    assert sum(line["value"]["seen"] for line in first) < 60  # 1 % of 2,000 is 20
    driver.restart()
    driver.send("clicks", *users)
    assert all(line["value"]["seen"] for line in driver.batch())


def test_state_has_one_size_however_much_was_seen():
    driver = marked(capacity=1000)
    sizes = set()
    for batch in range(5):
        rows = [{"user": f"u{batch}-{n}", "at": "2026-01-01T12:00:00Z"} for n in range(100)]
        driver.send("clicks", *rows)
        driver.batch()
        sizes.add(tuple(len(store.data) for store in driver.checkpoint.stores.values()))
    assert sizes == {(1, 1)}


def test_crashes_restarts_and_replays_change_nothing():
    lines = assert_mishaps_change_nothing(
        marked,
        "clicks",
        """
        at    | user
        12:00 | ann
        -----
        12:01 | ann
        12:02 | bob
        -----
        12:03 | bob
    """,
    )
    assert [line["value"]["seen"] for line in lines] == [False, True, False, True]
