"""Steps behind steps: what one corrects, the next one corrects too."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

SCHEMA = "shop string, country string, id string, total bigint, at timestamp"
HOUR = rr.tumbling("1 hour")


def orders(app, **options):
    return app.stream("orders", schema=SCHEMA, time="at", **options)


def per_hour(app, updatable="2 hours", emit="ready"):
    """The sum of a shop's orders per hour."""
    grouped = orders(app).group_by("shop", "country", name="hourly")
    return grouped.window(HOUR, updatable=updatable, emit=emit).agg(total=rr.sum("total"))


def best(emit="ready", **aggregates):
    """Countries over the hours of their shops, to `out`."""
    app = rr.App("shop", pages=2)
    per_hour(app, emit=emit).group_by("country", name="best").agg(**aggregates).to("out")
    return Driver(app)


def test_rows_are_deduplicated_before_they_are_counted():
    app = rr.App("shop", pages=2)
    unique = orders(app).deduplicate("id", within="1 hour", name="once")
    unique.group_by("shop", name="hourly").window(HOUR).agg(n=rr.count()).to("out")
    driver = Driver(app)
    out = driver.run(
        orders="""
        at    | shop | id
        12:00 | s    | a
        12:01 | s    | a
        12:02 | s    | b
        -----
        12:10 | s    | b
        13:00 | t    | c
    """
    )
    out.assert_is("""
        window_start | shop | n
        12:00        | s    | 2
    """)
    assert driver.status.late == {"once": 0, "hourly": 0}


def test_a_row_that_is_no_duplicate_may_still_be_late_for_its_window():
    app = rr.App("shop", pages=2)
    unique = orders(app).deduplicate("id", within="2 hours", name="once")
    unique.group_by("shop", name="hourly").window(HOUR).agg(n=rr.count()).to("out")
    out = Driver(app).run(
        orders="""
        at    | shop | id
        13:30 | s    | a
        -----
        12:30 | s    | b      # not late for `once`
        11:30 | s    | c      # late for `once`: it never comes to the window
    """
    )
    out.assert_is("""
        output      | at    | id
        hourly.late | 12:30 | b
        once.late   | 11:30 | c
    """)


def test_a_table_of_a_table_goes_up_and_down_with_it():
    out = best(hours=rr.count(), total=rr.sum("total"), most=rr.max("total")).run(
        orders="""
        at    | shop | country | total
        12:10 | s    | NO      | 5
        12:20 | t    | NO      | 7
        13:00 | s    | NO      | 1
        -----
        12:30 | s    | NO      | -4      # a refund: the hour of s goes from 5 to 1
    """
    )
    out.assert_is("""
        +- | country | hours | total | most | revision
        +  | NO      | 2     | 12    | 7    | 0
        -  | NO      | 2     | 12    | 7    | 0
        +  | NO      | 2     | 8     | 7    | 1
    """)


def test_extremes_and_distinct_values_forget_what_was_corrected():
    driver = best(
        least=rr.min("total"),
        most=rr.max("total"),
        kinds=rr.distinct("total"),
        top=rr.top("total", k=1),
        all=rr.collect("total"),
        middle=rr.median("total"),
    )
    out = driver.run(
        orders="""
        at    | shop | country | total
        12:10 | s    | NO      | 9
        12:20 | t    | NO      | 5
        12:25 | u    | NO      | 5
        13:00 | s    | NO      | 1
        -----
        12:30 | s    | NO      | -6      # 9 was the most; it is 3 now, the least
        -----
        12:40 | s    | NO      | 2       # and now 5, like the others
    """
    )
    out.assert_is("""
        +- | least | most | kinds | top                       | all       | middle
        +  | 5     | 9    | 2     | [{"value":5,"count":2}]   | [5, 5, 9] | 5
        -  | 5     | 9    | 2     | [{"value":5,"count":2}]   | [5, 5, 9] | 5
        +  | 3     | 5    | 2     | [{"value":5,"count":2}]   | [3, 5, 5] | 5
        -  | 3     | 5    | 2     | [{"value":5,"count":2}]   | [3, 5, 5] | 5
        +  | 5     | 5    | 1     | [{"value":5,"count":3}]   | [5, 5, 5] | 5
    """)


def test_a_row_that_moves_to_another_group_leaves_the_old_one():
    app = rr.App("shop", pages=2)
    sizes = per_hour(app).with_columns(size="case when total >= 10 then 'big' else 'small' end")
    sizes.group_by("size", name="sizes").agg(n=rr.count()).to("out")
    out = Driver(app).run(
        orders="""
        at    | shop | total
        12:10 | s    | 5
        12:20 | t    | 7
        13:00 | s    | 1
        -----
        12:30 | s    | 6
        -----
        12:40 | t    | 6
        -----
        12:50 | s    | -9
    """
    )
    out.assert_is("""
        +- | size  | n | revision
        +  | small | 2 | 0
        +  | big   | 1 | 0
        -  | small | 2 | 0
        +  | small | 1 | 1
        -  | big   | 1 | 0
        +  | big   | 2 | 1
        -  | small | 1 | 1
        -  | big   | 2 | 1
        +  | big   | 1 | 2
        +  | small | 1 | 0
    """)


def test_a_group_is_gone_with_its_last_row_and_begins_anew():
    app = rr.App("shop", pages=1)
    rich = per_hour(app).where("total > 10")
    rich.group_by("country", name="rich").agg(shops=rr.count()).to("out")
    driver = Driver(app)
    driver.run(
        orders="""
        at    | shop | country | total
        12:10 | s    | NO      | 20
        13:00 | s    | NO      | 1
        -----
        12:30 | s    | NO      | -15
        -----
        12:40 | s    | NO      | 15
    """
    ).assert_is("""
        +- | country | shops | revision
        +  | NO      | 1     | 0
        -  | NO      | 1     | 0
        +  | NO      | 1     | 0
    """)


def test_a_correction_that_leaves_the_sum_as_it_was_says_nothing():
    out = best(hours=rr.count()).run(
        orders="""
        at    | shop | country | total
        12:10 | s    | NO      | 5
        13:00 | s    | NO      | 1
        -----
        12:30 | s    | NO      | 3
    """
    )
    out.assert_is("""
        +- | country | hours
        +  | NO      | 1
    """)


def test_two_levels_of_grouping():
    app = rr.App("shop", pages=2)
    hourly = per_hour(app)
    shops = hourly.group_by("country", "shop", name="shops").agg(best=rr.max("total"))
    shops.group_by("country", name="countries").agg(
        shops=rr.count(), total_of_best=rr.sum("best")
    ).to("out")
    driver = Driver(app)
    driver.run(
        orders="""
        at    | shop | country | total
        12:10 | s    | NO      | 5
        12:20 | t    | NO      | 7
        13:10 | s    | NO      | 6
        14:00 | x    | SE      | 1
        -----
        13:20 | s    | NO      | -4      # the best hour of s is 12 again
    """
    ).assert_is("""
        +- | country | shops | total_of_best | revision
        +  | NO      | 2     | 13            | 0
        -  | NO      | 2     | 13            | 0
        +  | NO      | 2     | 12            | 1
    """)


def test_a_window_of_the_table_is_a_column_to_group_by():
    app = rr.App("shop", pages=2)
    day = per_hour(app).with_columns(day="date_trunc('day', window_start)")
    day.group_by("day", name="daily").agg(hours=rr.count(), total=rr.sum("total")).to("out")
    driver = Driver(app)
    driver.run(orders="at | shop | total\n 12:10 | s | 1\n 13:10 | s | 2\n 14:10 | s | 4")
    driver.end()
    assert [(row["hours"], row["total"]) for row in driver.table("out")] == [(3, 7)]


def test_sessions_are_grouped_like_any_table():
    app = rr.App("shop", pages=2)
    visits = orders(app).group_by("shop", "country", name="visits")
    table = visits.window(rr.session("10 minutes"), updatable="1 hour").agg(n=rr.count())
    table.group_by("country", name="visits_per_country").agg(
        visits=rr.count(), longest=rr.max("n")
    ).to("out")
    out = Driver(app).run(
        orders="""
        at    | shop | country
        12:00 | s    | NO
        12:15 | s    | NO
        12:25 | x    | SE
        -----
        12:07 | s    | NO      # joins the two
    """
    )
    out.assert_is("""
        +- | country | visits | longest | revision
        +  | NO      | 2      | 1       | 0
        -  | NO      | 2      | 1       | 0
        +  | NO      | 1      | 3       | 1
    """)


def test_late_rows_are_counted_without_a_window():
    app = rr.App("shop", pages=2)
    table = per_hour(app, updatable="0 seconds")
    table.to("hours")
    table.late.group_by("shop", name="missed").agg(n=rr.count(), total=rr.sum("total")).to("out")
    driver = Driver(app)
    driver.run(
        orders="""
        at    | shop | total
        15:00 | s    | 1
        -----
        12:00 | s    | 2
        -----
        13:00 | s    | 4
        13:00 | t    | 8
    """
    ).of("out").assert_is("""
        +- | shop | n | total | revision
        +  | s    | 1 | 2     | 0
        -  | s    | 1 | 2     | 0
        +  | s    | 2 | 6     | 1
        +  | t    | 1 | 8     | 0
    """)
    assert driver.status.late == {"hourly": 3, "missed": 0}


def test_what_is_new_is_marked_after_duplicates_are_gone():
    app = rr.App("shop", pages=2)
    unique = orders(app).deduplicate("id", within="1 hour", name="once")
    unique.mark_seen("shop", name="known").select("id", "shop", "seen").to("out")
    out = Driver(app).run(
        orders="""
        at    | shop | id
        12:00 | s    | a
        12:00 | s    | a
        -----
        12:01 | s    | b
    """
    )
    out.assert_is("""
        id | shop | seen
        a  | s    | false
        b  | s    | true
    """)


def test_one_step_may_feed_several():
    app = rr.App("shop", pages=2)
    hourly = per_hour(app)
    hourly.to("hours")
    hourly.group_by("shop", name="shops").agg(n=rr.count()).to("shops")
    hourly.group_by("country", name="countries").agg(n=rr.count()).to("countries")
    out = Driver(app).run(
        orders="""
        at    | shop | country | total
        12:00 | s    | NO      | 1
        12:00 | t    | NO      | 1
        13:00 | s    | NO      | 1
    """
    )
    assert [line["output"] for line in out] == ["countries", "hours", "hours", "shops", "shops"]
    assert out.of("countries")[0]["value"] == {"country": "NO", "n": 2}


STORY = """
    at    | shop | country | total
    12:10 | s    | NO      | 9
    12:20 | t    | NO      | 5
    13:00 | u    | SE      | 1
    -----
    12:30 | s    | NO      | -6
    12:31 | u    | SE      | 1
    -----
    12:40 | t    | NO      | 2
    09:00 | t    | NO      | 2      # late
    -----
    16:00 | s    | NO      | 1
"""


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
def test_crashes_restarts_and_replays_change_nothing(emit):
    lines = assert_mishaps_change_nothing(
        lambda: best(
            emit,
            n=rr.count(),
            total=rr.sum("total"),
            most=rr.max("total"),
            kinds=rr.distinct("total"),
            top=rr.top("total"),
        ),
        "orders",
        STORY,
    )
    assert {line["output"] for line in lines} == {"out", "hourly.late"}
