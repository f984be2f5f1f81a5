"""Streams and tables: branches, unions, lists, keys, filters, and what Kafka knows of a record."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver

FIVE = rr.tumbling("5 minutes")


def clicks(app, topic="clicks", **options):
    schema = "page string, user string, ms bigint, at timestamp"
    return app.stream(topic, schema=schema, time="at", **options)


def test_two_branches_share_one_source():
    app = rr.App("shop", pages=2)
    source = clicks(app)
    source.where("ms > 10").select("page").to("slow")
    source.group_by("user").agg(n=rr.count()).to("users")
    Driver(app).run(
        clicks="""
        at    | page | user | ms
        12:00 | /a   | u    | 11
        12:01 | /b   | u    | 10
    """
    ).assert_is("""
        output | key | +-
        slow   |     | +
        users  | u   | +
    """)


def test_a_union_of_two_topics_waits_for_the_slower_one():
    app = rr.App("shop", pages=2)
    both = clicks(app, "web").union(clicks(app, "phone"))
    both.group_by("page").window(FIVE).agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.run(
        web="""
            at    | page
            12:00 | /a
            -----
            12:11 | /a
        """,
        phone="""
            at    | page
            12:01 | /a
            -----
            12:02 | /a
        """,
    ).assert_is("+- | n")
    driver.run(
        phone="""
        at    | page
        12:20 | /a
    """
    ).assert_is("""
        +- | window_start | page | n
        +  | 12:00        | /a   | 3
    """)


def test_a_union_of_two_branches_of_one_topic_has_the_rows_of_both():
    app = rr.App("shop", pages=2)
    source = clicks(app)
    slow, fast = source.where("ms > 10"), source.where("ms < 20")
    both = slow.union(fast)
    both.select("page", "ms").to("both")
    both.group_by("page").agg(all=rr.collect("ms"), n=rr.count()).to("out")
    out = Driver(app).run(
        clicks="""
        at    | page | ms
        12:02 | /a   | 25
        12:01 | /a   | 15     # in both
        12:00 | /a   | 5
    """
    )
    out.of("both").assert_is("""
        page | ms
        /a   | 5
        /a   | 15
        /a   | 15
        /a   | 25
    """)
    out.of("out").assert_is("""
        page | all          | n
        /a   | [5,15,15,25] | 4
    """)


def test_explode_makes_a_row_of_each_element_in_order():
    app = rr.App("shop", pages=2)
    tagged = app.stream("t", schema="id int, tags string[]")
    tagged.explode("tags").to("rows")
    tagged.explode("tags").group_by("id").agg(all=rr.collect("tags")).to("lists")
    out = Driver(app).run(
        t="""
        id | tags
        1  | ["b", "a", null]
        2  | []
        3  |
    """
    )
    out.of("rows").assert_is("""
        id | tags
        1  | b
        1  | a
        1  |
    """)
    out.of("lists").assert_is("""
        id | all
        1  | ["b", "a"]
    """)


def test_key_by_sets_the_key_that_rows_are_written_with():
    app = rr.App("shop", pages=2)
    source = clicks(app, key="user")
    source.select("user", "page").to("by_user")
    source.key_by("page").to("by_page")
    source.key_by("page", "user").to("by_both")
    source.select("page").to("by_none")
    source.key_by("_key").to("by_record")
    Driver(app).run(
        clicks="""
        at    | page | user | _key
        12:00 | /a   | u    | k
    """
    ).assert_is("""
        output    | key
        by_both   | {"page": "/a", "user": "u"}
        by_none   |
        by_page   | /a
        by_record | k
        by_user   | u
    """)


def test_a_row_that_leaves_a_filter_is_retracted():
    app = rr.App("shop", pages=2)
    table = clicks(app).group_by("page").agg(n=rr.count(), ms=rr.sum("ms"))
    table.where("ms < 10").with_columns(mean="ms / n").select("page", "mean").to("out")
    driver = Driver(app)
    driver.run(
        clicks="""
        at    | page | ms
        12:00 | /a   | 4
        -----
        12:01 | /a   | 2
        -----
        12:02 | /a   | 9      # leaves
        -----
        12:03 | /a   | 9
        -----
        12:03 | /a   | -20    # is back
    """
    ).assert_is("""
        +- | page | mean | revision
        +  | /a   | 4    | 0
        -  | /a   | 4    | 0
        +  | /a   | 3    | 1
        -  | /a   | 3    | 1
        +  | /a   | 0.8  | 4
    """)


def test_what_kafka_knows_of_a_record_can_be_used():
    app = rr.App("shop", pages=2)
    source = app.stream("t", schema="page string")
    source.where("_partition = 1").select(
        "_key", "_timestamp", "_topic", "_partition", "_offset", agent="_headers['agent']"
    ).to("out")
    driver = Driver(app)
    driver.send("t", {"page": "/a"}, partition=0)
    driver.send("t", {"page": "/a"}, {"page": "/b"}, partition=1, key="k", timestamp=1_500,
                headers={"agent": "x"})  # fmt: skip
    driver.batch().assert_is("""
        _key | _timestamp                  | _topic | _partition | _offset | agent
        k    | 1970-01-01T00:00:01.500000Z | t      | 1          | 0       | x
        k    | 1970-01-01T00:00:01.500000Z | t      | 1          | 1       | x
    """)


def test_the_records_timestamp_is_its_time_unless_the_program_says_otherwise():
    app = rr.App("shop", pages=2)
    source = app.stream("t", schema="page string")
    source.group_by("page").window(FIVE).agg(n=rr.count()).to("out")
    Driver(app).run(
        t="""
        page | _timestamp
        /a   | 12:00
        /a   | 12:05
    """
    ).assert_is("""
        page | window_start | n
        /a   | 12:00        | 1
    """)


@pytest.mark.parametrize("type", ["timestamp_s", "timestamp_ms"])
def test_times_may_be_numbers(type):
    app = rr.App("shop", pages=2)
    source = app.stream("t", schema=f"page string, at {type}", time="at")
    source.group_by("page").window(FIVE).agg(at=rr.last("at")).to("out")
    Driver(app).run(
        t="""
        page | at
        /a   | 12:00:05
        /a   | 12:05
    """
    ).assert_is("""
        page | window_start | at
        /a   | 12:00        | 12:00:05
    """)


def test_a_step_keeps_the_clock_of_its_own_topics():
    app = rr.App("shop", pages=2)
    for topic in ("web", "phone"):
        clicks(app, topic).group_by("page").window(FIVE).agg(n=rr.count()).to(f"{topic}_pages")
    Driver(app).run(
        web="""
            at    | page
            12:00 | /a
            12:11 | /a
        """,
        phone="""
            at    | page
            12:00 | /a
        """,
    ).assert_is("""
        output    | page | n
        web_pages | /a   | 1
    """)
