"""`.map(…)` and `.filter(…)`: functions of a row, between any steps."""

from __future__ import annotations

import itertools
import random

import pytest

import riverrun as rr
from riverrun.compiler.describe import as_dict, as_text
from riverrun.compiler.mermaid import as_mermaid
from riverrun.compiler.passes import passed
from riverrun.errors import JobError
from riverrun.testing import Driver

SCHEMA = "user string, ms bigint, tags string[], at timestamp"
ROWS = """
    at    | user | ms
    12:00 | ann  | 5
    12:01 | bob  | 50
    12:02 | cid  |
    12:03 | ann  | 70
"""


def clicks():
    return rr.App("shop", pages=2).stream("clicks", schema=SCHEMA, time="at", key="user")


def ran(rows, text=ROWS):
    rows.to("out")
    driver = Driver(rows.registry)
    driver.run(clicks=text)
    return driver


def values(driver, output="out"):
    return [line["value"] for line in driver.outputs[output]]


def slow(row):
    return row.ms is not None and row["ms"] > 10


def shout(row):
    return {"user": row.user.upper(), "n": row.ms} if row.ms else None


def test_a_filter_keeps_the_rows_for_which_it_gives_true():
    assert [row["user"] for row in values(ran(clicks().filter(slow)))] == ["bob", "ann"]
    nothing = clicks().filter(lambda row: None)
    assert values(ran(nothing)) == []


def test_a_map_makes_a_row_of_each_row_or_none():
    driver = ran(clicks().map(shout, schema="user string, n int"))
    assert values(driver) == [
        {"user": "ANN", "n": 5}, {"user": "BOB", "n": 50}, {"user": "ANN", "n": 70},
    ]  # fmt: skip
    assert [line["key"] for line in driver.outputs["out"]] == ["ANN", "BOB", "ANN"]


def test_rows_may_be_passed_on_with_more_columns():
    rows = clicks().select("user", "ms")
    made = rows.map(lambda row: {**row, "n": len(row)}, schema="user string, ms bigint, n int")
    assert values(ran(made))[0] == {"user": "ann", "ms": 5, "n": 2}


def test_both_work_between_steps_and_keep_the_time_of_rows():
    def per_user(row):
        return {"user": row.user, "half": row.ms / 2, "when": row.at}

    rows = clicks().filter(slow).deduplicate("user", "ms", within="1 hour")
    rows = rows.map(per_user, schema="user string, half double, when timestamp")
    table = rows.group_by("user").window(rr.tumbling("1 minute"), emit="changes").agg(
        total=rr.sum("half"), at=rr.max("when")
    )  # fmt: skip
    driver = ran(table.filter(lambda row: row.total > 30))
    assert values(driver) == [
        {"user": "ann", "window_start": "2026-01-01T12:03:00Z",
         "window_end": "2026-01-01T12:04:00Z", "total": 35.0, "at": "2026-01-01T12:03:00Z"},
    ]  # fmt: skip


def test_a_row_of_a_table_that_no_longer_passes_is_deleted():
    table = clicks().to_table("user").filter(lambda row: bool(row.ms and row.ms < 60))
    assert [row["user"] for row in ran(table).table("out")] == ["bob"]


def test_a_filtered_table_can_be_joined():
    app = rr.App("shop", pages=2)
    users = app.table("users", key="id", schema="id string, country string", time="_timestamp")
    stream = app.stream("clicks", schema=SCHEMA, time="at")
    known = users.filter(lambda row: row.country == "de")
    stream.join(known, on={"user": "id"}, as_of="latest").select("user", "country").to("out")
    driver = Driver(app)
    driver.run(users="_key | id | country\nann | ann | de\nbob | bob | fr")
    driver.run(clicks=ROWS)
    assert values(driver) == [{"user": "ann", "country": "de"}] * 2


def test_one_line_may_make_many_functions():
    app = rr.App("shop", pages=2)
    stream = app.stream("clicks", schema=SCHEMA, time="at")
    for user in ("ann", "bob"):
        stream.filter(lambda row, user=user: row.user == user).filter(slow).to(user)
    driver = Driver(app)
    driver.run(clicks=ROWS)
    assert [[row["ms"] for row in values(driver, user)] for user in ("ann", "bob")] == [[70], [50]]


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def fails(row):
    return 1 // (row.ms - 50) > -9


def test_errors_are_dead_letters_with_the_line_of_the_function():
    driver = ran(clicks().where("ms > 0").filter(fails))
    assert [row["ms"] for row in values(driver)] == [5, 70]
    (letter,) = values(driver, "dead")
    line = line_of("return 1 // (row")
    assert letter["cause"].startswith("ZeroDivisionError: ")
    assert letter["cause"].endswith(f"(test_map_filter.py:{line}, in fails)")


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        ({"n": 1}, "TypeError: the column 'user' is missing"),
        ({"user": "x", "n": 1, "m": 2}, "TypeError: there is no column 'm'; there is user, n"),
        ({"user": "x", "n": 1.5}, "TypeError: n is 1.5, not INTEGER"),
        ({"user": "x", "n": 1 << 40}, "TypeError: n is 1099511627776, not INTEGER"),
        (("x", 1), "TypeError: the result is ('x', 1), not a dictionary"),
    ],
)
def test_a_row_that_is_not_as_declared_is_a_dead_letter(made, cause):
    driver = ran(clicks().map(lambda row: made, schema="user string, n int"))
    assert values(driver) == []
    assert values(driver, "dead")[0]["cause"].startswith(f"{cause} (test_map_filter.py:")


def test_a_filter_gives_true_or_false():
    driver = ran(clicks().where("ms = 5").filter(lambda row: row.ms))
    (letter,) = values(driver, "dead")
    assert letter["cause"].startswith("TypeError: the result is 5, not BOOLEAN")


def test_an_attribute_that_is_no_column_says_what_there_is():
    driver = ran(clicks().where("ms = 5").filter(lambda row: row.sm > 1))
    assert (
        "the event has no column 'sm'; it has user, ms, tags, at"
        in (values(driver, "dead")[0]["cause"])
    )


def test_the_driver_notices_what_changes_from_run_to_run():
    numbers = itertools.count()
    for function in (lambda row: random.random() < 0.5 or None, lambda row: next(numbers) % 3 == 0):
        with pytest.raises(JobError, match="gives another result when it is run again"):
            ran(clicks().filter(function), ROWS + ROWS.partition("ms\n")[2] * 20)
    with pytest.raises(JobError, match="gives another result"):
        ran(clicks().map(lambda row: {"n": next(numbers)}, schema="n bigint"))


def test_they_describe_themselves_by_name_and_line(tmp_path):
    rows = clicks().filter(slow).map(shout, schema="user string, n int")
    rows.to("out")
    plan = passed(rows.registry.plan())
    text = as_text(plan, tmp_path)
    assert f"filter slow (test_map_filter.py:{line_of('def slow')})" in text
    assert f"map shout (test_map_filter.py:{line_of('def shout')})" in text
    assert "filter slow" in str(as_dict(plan))
    assert "map shout" in as_mermaid(plan)


@pytest.mark.parametrize(
    ("fact", "make"),
    {
        "filter needs a function": lambda: clicks().filter("ms > 10"),
        "map needs a function": lambda: clicks().map("ms", schema="n int"),
        "filter needs a function of a row": lambda: clicks().filter(lambda: True),
        "map needs a function of a row": lambda: clicks().map(5, schema="n int"),
        "the schema cannot be read": lambda: clicks().map(shout, schema="n integr"),
        "rows of a table cannot be mapped": lambda: clicks().to_table("user").map(shout),
    }.items(),
)
def test_what_cannot_be_meant_is_refused(fact, make):
    with pytest.raises(rr.ProgramError) as caught:
        make()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__


@pytest.mark.parametrize("joined", [False, True], ids=["written", "joined"])
def test_what_deletes_a_row_of_a_table_is_not_handed_to_its_filter(joined):
    """A join keeps the table itself, from its records."""
    app = rr.App("shop")
    stock = app.table("stock", schema="item string, n int", key="item").filter(
        lambda row: row.n > 1
    )
    stock = stock.with_columns(half="n // 2")
    orders = app.stream("orders", schema="item string")
    if joined:
        orders.join(stock, on="item", how="left").to("out")
    else:
        stock.to("out")
    driver = Driver(app)
    driver.send("stock", {"item": "a", "n": 5}, key="a")
    driver.send("orders", {"item": "a"})
    driver.batch()
    driver.send("stock", None, key="a")
    driver.send("orders", {"item": "a"})
    driver.batch()
    assert driver.outputs["dead"] == []
    if joined:
        assert [line["value"]["half"] for line in driver.outputs["out"]] == [2, None]
    else:
        assert driver.table("out") == []
