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


def test_statistics_of_a_window():
    app = rr.App("shop", pages=2)
    window = clicks(app).group_by("page").window(rr.tumbling("10 seconds"), emit="changes")
    window.agg(
        spread=rr.stddev("ms"),
        users=rr.distinct("user"),
        middle=rr.median("ms"),
        ends=rr.percentile("ms", [0, 1]),
        most=rr.top("user", k=1),
        slowest=rr.top("user", k=1, weight="ms"),
        speed=rr.rate(),
        flow=rr.rate("ms"),
    ).to("out")
    Driver(app).run(
        clicks="""
        at       | page | user | ms
        12:00:01 | /a   | ann  | 10
        12:00:02 | /a   | ann  | 20
        12:00:03 | /a   | bob  | 90
        12:00:03 | /b   |      |
    """
    ).assert_is("""
        page | spread            | users | middle | ends     | speed | flow
        /a   | 43.58898943540674 | 2     | 20     | [10, 90] | 0.3   | 12
        /b   |                   | 0     |        |          | 0.1   |
    """)


def test_the_most_frequent_values_come_with_their_counts():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("page").agg(
        most=rr.top("user", k=2), slowest=rr.top("user", k=1, weight="ms"), when=rr.top("at", k=1)
    ).to("out")
    driver = Driver(app)
    driver.run(
        clicks="""
        at    | page | user | ms
        12:00 | /a   | cid  | 10
        12:01 | /a   | bob  | 20
        12:01 | /a   | ann  | 90
        -----
        12:01 | /a   | cid  | 5
        12:01 | /a   | bob  |
        12:02 | /b   |      | 7
    """
    )
    of_a, of_b = driver.table("out")
    assert of_a["most"] == [{"value": "bob", "count": 2}, {"value": "cid", "count": 2}]
    assert of_a["slowest"] == [{"value": "ann", "count": 90}]
    assert of_a["when"] == [{"value": "2026-01-01T12:01:00Z", "count": 4}]
    assert (of_b["most"], of_b["slowest"]) == ([], [])


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


OF_ANY_TYPE = [
    ("bigint", [1, -1]),
    ("hugeint", [1, 2]),
    ("double", [0.5, 1e300]),
    ("boolean", [False, True]),
    ("date", ["1960-01-01", "2026-01-01"]),
    ("time", ["12:00:00", "12:00:01"]),
    ("timestamp", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"]),
    ("decimal(9,2)", [1.25, 1.26]),
    ("uuid", ["9b2e9c1e-0000-4000-8000-000000000001", "9b2e9c1e-0000-4000-8000-000000000002"]),
]


@pytest.mark.parametrize(("type", "values"), OF_ANY_TYPE)
def test_values_of_any_type_can_be_counted(type, values):
    pytest.importorskip("datasketches", reason="has no build for Python 3.14 yet")
    app = rr.App("shop", pages=2)
    counted = app.stream("t", schema=f"k int, x {type}").group_by("k")
    counted.agg(
        kinds=rr.distinct("x"),
        top=rr.top("x"),
        about=rr.approx_distinct("x"),
        most=rr.approx_top("x"),
    ).to("out")
    driver, (one, two) = Driver(app), values
    for _ in range(2):
        driver.send("t", *({"k": 1, "x": value} for value in [one, two, two, None]))
        driver.batch()
    top = [{"value": two, "count": 4}, {"value": one, "count": 2}]
    assert driver.table("out") == [{"k": 1, "kinds": 2, "top": top, "about": 2, "most": top}]


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
