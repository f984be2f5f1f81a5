"""Windows: when results come out, how they are corrected, and what is late."""

from __future__ import annotations

import pytest

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
    driver.run(clicks="""
        at       | page
        12:09:59 | /b
        -----
        12:04:59 | /a      # the last moment
        12:10    | /b
    """).assert_is("""
        +- | window_start | page | clicks
        +  | 12:00        | /a   | 1
        +  | 12:05        | /b   | 1
    """)
    driver.run(clicks="""
        at    | page
        12:04 | /a
        12:05 | /b
    """).of("pages.late").assert_is("""
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
    assert driver.status.late == 2


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


AGGREGATES = {
    "n": rr.count(),
    "some": rr.count("ms"),
    "total": rr.sum("ms"),
    "mean": rr.avg("ms"),
    "least": rr.min("ms"),
    "most": rr.max("ms"),
    "first": rr.first("ms"),
    "last": rr.last("ms"),
    "all": rr.collect("ms"),
}


def test_aggregates_go_by_event_time_and_leave_nulls_out():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(**AGGREGATES).to("out")
    out = Driver(app).run(
        clicks="""
        at    | page | ms
        12:03 | /a   | 30
        12:01 | /a   | 10
        12:00 | /a   |
        -----
        12:09 | /a   | null
        12:02 | /a   | 20
        12:00 | /a   | 40
        12:08 | /b   |
    """
    )
    out.assert_is("""
        +- | page | n | some | total | mean | least | most | first | last | all           | revision
        +  | /a   | 3 | 2    | 40    | 20   | 10    | 30   | 10    | 30   | [10, 30]      | 0
        -  | /a   | 3 | 2    | 40    | 20   | 10    | 30   | 10    | 30   | [10, 30]      | 0
        +  | /a   | 6 | 4    | 100   | 25   | 10    | 40   | 40    | 30   | [40,10,20,30] | 1
        +  | /b   | 1 | 0    |       |      |       |      |       |      | []            | 0
    """)


def test_events_of_one_time_go_by_partition_and_offset():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(
        first=rr.first("ms"), last=rr.last("ms"), all=rr.collect("ms")
    ).to("out")
    driver = Driver(app)
    driver.run(
        clicks="""
        at    | page | ms | _partition
        12:00 | /a   | 3  | 1
        12:00 | /a   | 1  | 0
        12:00 | /a   | 2  | 0
    """
    ).assert_is("""
        first | last | all
        1     | 3    | [1, 2, 3]
    """)


def test_times_can_be_collected():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(times=rr.collect("at"), until=rr.max("at")).to("out")
    Driver(app).run(
        clicks="""
        at       | page
        12:01:00 | /a
        12:00:30 | /a
    """
    ).assert_is("""
        page | times                                            | until
        /a   | ["2026-01-01T12:00:30Z", "2026-01-01T12:01:00Z"] | 12:01
    """)


def test_a_result_that_stays_the_same_is_not_emitted_again():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(most=rr.max("ms"), all=rr.collect("user")).to("out")
    Driver(app).run(
        clicks="""
        at    | page | ms
        12:00 | /a   | 5
        -----
        12:01 | /a   | 3
        -----
        12:01 | /a   | 7
    """
    ).assert_is("""
        +- | page | most | all | revision
        +  | /a   | 5    | []  | 0
        -  | /a   | 5    | []  | 0
        +  | /a   | 7    | []  | 1
    """)


def test_null_is_a_key_like_any_other():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page", "user").agg(n=rr.count()).to("out")
    driver = Driver(app)
    drawn = """
        at    | page | user
        12:00 |      | u
        12:00 | u    |
        12:00 |      |
        12:00 | ""   | ""
        12:00 | ""   |
    """
    assert {line["value"]["n"] for line in driver.run(clicks=drawn)} == {1}
    driver.run(clicks=drawn)
    assert [row["n"] for row in driver.table("out")] == [2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("bigint", [1, -1]),
        ("double", [0.5, 1e300]),
        ("boolean", [True, False]),
        ("date", ["2026-01-01", "1960-01-01"]),
        ("timestamp", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"]),
        ("decimal(9,2)", [1.25, 1.26]),
        ("struct(a int)", [{"a": 1}, {"a": 2}]),
    ],
)
def test_rows_can_be_grouped_by_any_single_value(type, values):
    app = rr.App("shop", pages=2)
    app.stream("t", schema=f"k {type}").group_by("k").agg(n=rr.count()).to("out")
    driver = Driver(app)
    for _ in range(2):
        driver.send("t", *({"k": value} for value in [*values, None, values[0]]))
        driver.batch()
    assert sorted(row["n"] for row in driver.table("out")) == [2, 2, 4]


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
    source.select("user", "page").to("by user")
    source.key_by("page").to("by page")
    source.key_by("page", "user").to("by both")
    source.select("page").to("by none")
    source.key_by("_key").to("by the record's")
    Driver(app).run(
        clicks="""
        at    | page | user | _key
        12:00 | /a   | u    | k
    """
    ).assert_is("""
        output          | key
        by both         | {"page": "/a", "user": "u"}
        by none         |
        by page         | /a
        by the record's | k
        by user         | u
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
        clicks(app, topic).group_by("page").window(FIVE).agg(n=rr.count()).to(f"{topic} pages")
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
        web pages | /a   | 1
    """)
