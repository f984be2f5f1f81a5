"""Aggregates: what each computes, by event time, and what is a key."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver


def clicks(app):
    schema = "page string, user string, ms bigint, at timestamp"
    return app.stream("clicks", schema=schema, time="at")


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
