"""A program that is changed goes on with its state: aggregates come and go, steps are renamed."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.errors import CheckpointError, ProgramError
from riverrun.testing import Driver

SCHEMA = "page string, ms bigint, at timestamp"

BEFORE = """
    at    | page | ms
    12:00 | /a   | 10
    12:00 | /b   | 20
"""
AFTER = """
    at    | page | ms
    12:01 | /a   | 30
    12:01 | /c   | 5
"""


def version(window: object = None, *, name: str = "pages", was: str | None = None, **aggregates):
    app = rr.App("shop")
    views = app.stream("views", schema=SCHEMA, time="at")
    grouped = views.group_by("page", name=name, was=was)
    if window is not None:
        grouped = grouped.window(window, emit="changes")
    grouped.agg(**(aggregates or {"n": rr.count()})).to("out")
    return app


def rows(driver: Driver, *columns: str) -> dict[str, tuple]:
    return {row["page"]: tuple(row.get(each) for each in columns) for row in driver.table("out")}


def test_an_aggregate_that_is_added_starts_from_now_on_and_is_null_before():
    driver = Driver(version())
    driver.run(views=BEFORE)
    driver.restart(version(n=rr.count(), total=rr.sum("ms"), since=rr.count()))
    driver.run(views=AFTER).assert_is("""
        +- | page | n | total | since
        -  | /a   | 1 |       |
        +  | /a   | 2 | 30    | 1
        +  | /c   | 1 | 5     | 1
    """)
    assert driver.ask("pages", "SELECT page, n, since FROM pages ORDER BY page").rows == [
        {"page": "/a", "n": 2, "since": 1},
        {"page": "/b", "n": 1, "since": None},
        {"page": "/c", "n": 1, "since": 1},
    ]


def test_an_aggregate_that_is_removed_is_dropped_and_starts_anew_when_it_comes_back():
    driver = Driver(version(n=rr.count(), total=rr.sum("ms")))
    driver.run(views=BEFORE)
    driver.restart(version(n=rr.count()))
    driver.run(views=AFTER)
    driver.restart(version(n=rr.count(), total=rr.sum("ms")))
    driver.run(
        views="""
        at    | page | ms
        12:02 | /a   | 7
    """
    )
    assert rows(driver, "n", "total")["/a"] == (3, 7)
    driver.restart(version(n=rr.count(), total=rr.max("ms")))
    driver.run(
        views="""
        at    | page | ms
        12:03 | /a   | 4
    """
    )
    assert rows(driver, "n", "total")["/a"] == (4, 4)
    driver.restart()
    driver.run(
        views="""
        at    | page | ms
        12:04 | /a   | 9
    """
    )
    assert rows(driver, "n", "total")["/a"] == (5, 9)


KINDS = {
    "count": rr.count("ms"), "sum": rr.sum("ms"), "avg": rr.avg("ms"), "min": rr.min("ms"),
    "max": rr.max("ms"), "first": rr.first("ms"), "last": rr.last("ms"),
    "collect": rr.collect("ms"), "distinct": rr.distinct("ms"), "stddev": rr.stddev("ms"),
    "percentile": rr.percentile("ms", 0.5), "top": rr.top("ms", 2),
    "approx_distinct": rr.approx_distinct("ms"), "approx_top": rr.approx_top("ms", 2),
    "approx_percentile": rr.approx_percentile("ms", 0.5), "max_by": rr.max_by("page", "ms"),
    "latest": rr.latest("ms", 2), "distinct_values": rr.distinct_values("ms", 9),
    "histogram": rr.histogram("ms", [10, 20]), "correlation": rr.correlation("ms", "ms * ms"),
}  # fmt: skip


@pytest.mark.parametrize(
    "window",
    [None, rr.tumbling("1 hour"), rr.hopping("1 hour", "30 minutes"), rr.session("5 minutes")],
    ids=["all time", "tumbling", "hopping", "session"],
)
def test_every_kind_is_what_it_is_of_the_rows_that_came_since(window):
    driver, only_after = Driver(version(window)), Driver(version(window, **KINDS))
    driver.run(views=BEFORE)
    driver.restart(version(window, n=rr.count(), **KINDS))
    driver.run(views=AFTER)
    only_after.run(views=AFTER)
    found, wanted = rows(driver, *KINDS), rows(only_after, *KINDS)
    assert found["/a"] == wanted["/a"]
    assert found["/c"] == wanted["/c"]
    assert rows(driver, "n")["/a"] == (2,)
    standing = {each["page"]: each for each in driver.ask("pages", "SELECT * FROM pages").rows}
    assert [standing["/b"][each] for each in KINDS] == [None] * len(KINDS)


def test_a_sliding_window_counts_only_the_rows_that_came_since():
    driver = Driver(version(rr.sliding("5 minutes")))
    driver.run(views=BEFORE)
    driver.restart(version(rr.sliding("5 minutes"), n=rr.count(), total=rr.sum("ms")))
    driver.run(views=AFTER)
    assert [(r["n"], r["total"]) for r in driver.table("out") if r["ms"] == 30] == [(2, 30)]


def test_a_step_that_was_called_otherwise_goes_on_with_its_state():
    driver = Driver(version(name="visits"))
    driver.run(views=BEFORE)
    driver.restart(version(name="pages", was="visits"))
    driver.run(views=AFTER)
    assert rows(driver, "n") == {"/a": (2,), "/b": (1,), "/c": (1,)}
    driver.restart(version(name="pages"))
    driver.run(views=AFTER)
    assert rows(driver, "n") == {"/a": (3,), "/b": (1,), "/c": (2,)}


def test_two_steps_cannot_go_on_with_one_state():
    app = version(name="pages", was="visits")
    views = app.stream("clicks", schema=SCHEMA, time="at")
    views.group_by("page", name="visits").agg(n=rr.count()).to("clicks-out")
    with pytest.raises(ProgramError, match="two steps would go on with the state of 'visits'"):
        app.program()


def test_an_aggregate_over_a_table_cannot_start_from_now_on():
    def users(**aggregates):
        app = rr.App("shop")
        users = app.table("users", schema="user string, city string, age bigint", key="user")
        users.group_by("city", name="cities").agg(**aggregates).to("out")
        return app

    driver = Driver(users(n=rr.count(), age=rr.max("age")))
    driver.run(users="user | city | age\nann | rome | 30")
    with pytest.raises(CheckpointError, match="'cities' changed") as refused:
        driver.restart(users(n=rr.count(), total=rr.sum("age")))
    assert "told of rows that go and never came" in str(refused.value)
    driver.restart(users(n=rr.count()))
    driver.run(users="user | city | age\nbob | rome | 40")
    assert [(row["city"], row["n"]) for row in driver.table("out")] == [("rome", 2)]


def test_an_aggregate_of_ones_own_can_be_added():
    class Longest(rr.Aggregate):
        state = "text string"
        returns = "string"

        def add(self, state, page):
            state.text = max(state.text or "", page, key=len)

        def merge(self, state, other):
            self.add(state, other.text or "")

        def finish(self, state):
            return state.text

    driver = Driver(version())
    driver.run(views=BEFORE)
    driver.restart(version(n=rr.count(), longest=Longest("page")))
    driver.run(views=AFTER)
    assert rows(driver, "n", "longest") == {"/a": (2, "/a"), "/b": (1, None), "/c": (1, "/c")}
