"""Aggregates of one's own, against the built-in ones."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from riverrun.runtime.shape import shape as shape_of

import riverrun as rr
from riverrun.errors import JobError
from riverrun.testing import Driver
from test_oracle import batches, mishaps, oracle, run, shapes

SCHEMA = "page string, user string, x double, y double, at timestamp"


class Sum(rr.Aggregate):
    state = "total double default 0"
    returns = "double"

    def add(self, state, x):
        state.total += x

    def merge(self, state, other):
        state.total += other.total

    def take_back(self, state, x):
        state.total -= x

    def finish(self, state):
        return state.total


class Least(rr.Aggregate):
    state = "least double"
    returns = "double"

    def add(self, state, x):
        state.least = x if state.least is None else min(x, state.least)

    def merge(self, state, other):
        self.add(state, other.least) if other.least is not None else None

    def finish(self, state):
        return state.least


class Values(rr.Aggregate):
    """A state that is a list, and one that rows can be taken out of again."""

    state = "found double[] default []"
    returns = "double[]"

    def add(self, state, x):
        state.found.append(x)

    def merge(self, state, other):
        state.found += other.found

    def take_back(self, state, x):
        state.found.remove(x)

    def finish(self, state):
        return sorted(state.found)


class Weighted(rr.Aggregate):
    """Of two expressions, with a power that it is made with."""

    state = "weights double default 0, total double default 0"
    returns = "struct(mean double, weight double)"

    def __init__(self, x, weight, power=1):
        super().__init__(x, weight)
        self.power = power

    def add(self, state, x, weight):
        state.weights += weight**self.power
        state.total += x * weight**self.power

    def merge(self, state, other):
        state.weights += other.weights
        state.total += other.total

    def finish(self, state):
        return {"mean": state.total / state.weights, "weight": state.weights}


BOTH = {
    "own_sum": Sum("x"), "sum": rr.sum("x"),
    "own_least": Least("x"), "least": rr.min("x"),
    "own_values": Values("x"), "values": rr.collect("x"),
}  # fmt: skip


def same(row):
    assert row["own_sum"] == row["sum"]
    assert row["own_values"] == (sorted(row["values"]) or None)
    if "least" in row:
        assert row["own_least"] == row["least"]


@oracle
@given(shape=shapes, drawn=batches, mishaps=mishaps)
def test_in_every_window_they_are_what_the_built_in_ones_are(shape, drawn, mishaps):
    driver, lines = run(replace(shape, compared=BOTH), drawn, mishaps)
    for line in lines:
        if line["output"] == "out":
            same(line["value"])
    assert driver.outputs["dead"] == []


@oracle
@given(drawn=batches, mishaps=mishaps)
def test_over_a_table_rows_are_taken_back(drawn, mishaps):
    app = rr.App("signed", pages=2)
    rows = app.stream("a", schema="page string, user bigint, x double, at timestamp", time="at")
    grouped = rows.to_table("page", "user", name="latest").group_by("page", name="per_page")
    chosen = {name: agg for name, agg in BOTH.items() if "least" not in name}
    grouped.agg(**chosen).to("out")
    driver = Driver(app)
    for (events, _), mishap in zip(drawn, mishaps, strict=False):
        for each in events:
            at = f"2026-01-01T12:00:00.{each.after + 100:03d}Z"
            row = {"page": each.page or "/a", "user": each.user or 1, "x": each.x, "at": at}
            driver.send("a", row)
        if mishap:
            getattr(driver, mishap)()
        for line in driver.batch():
            if line["output"] == "out":
                same(line["value"])
    assert driver.outputs["dead"] == []


def views(**options):
    app = rr.App("shop", pages=2)
    return app.stream("views", schema=SCHEMA, time="at", **options)


def made(table, text):
    table.to("out")
    driver = Driver(table.registry)
    driver.run(views=text)
    return driver


ROWS = """
    at    | page | x | y
    12:00 | /a   | 1 | 2
    12:00 | /a   | 4 | 1
    12:01 | /a   | 4 |
    12:01 | /b   |   | 1
"""


def test_several_expressions_options_and_no_value_at_all():
    table = views().group_by("page").agg(w=Weighted("x", "y", power=2), n=rr.count())
    assert made(table, ROWS).table("out") == [
        {"page": "/a", "w": {"mean": 1.6, "weight": 5.0}, "n": 3},
        {"page": "/b", "w": None, "n": 1},
    ]


def test_rows_with_nulls_are_given_where_they_are_asked_for():
    class Holes(rr.Aggregate):
        state = "n bigint default 0"
        returns = "bigint"
        nulls = True

        def add(self, state, x, y):
            state.n += (x is None) + (y is None)

        def merge(self, state, other):
            state.n += other.n

        def finish(self, state):
            return state.n

    table = views().group_by("page").agg(n=Holes("x", "y"))
    assert made(table, ROWS).table("out") == [{"page": "/a", "n": 1}, {"page": "/b", "n": 1}]


def test_a_window_is_compared_with_an_earlier_one():
    windows = views().group_by("page").window(rr.tumbling("1 minute"), emit="changes")
    table = windows.agg(s=rr.compared_to("1 minute", Sum("x")))
    last = made(table, ROWS).table("out")[1]
    assert (last["s"], last["s_earlier"], last["s_difference"]) == (4.0, 5.0, -1.0)


class Logarithms(rr.Aggregate):
    state = "total double default 0"
    returns = "double"

    def add(self, state, x):
        state.total += math.log(x)

    def merge(self, state, other):
        if other.total > 9:
            raise ValueError("too much")
        state.total += other.total

    def take_back(self, state, x):
        state.total -= math.log(x)

    def finish(self, state):
        return state.total if state.total < 9 else "plenty"


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_a_row_that_cannot_be_added_is_a_dead_letter():
    text = "at | page | x\n12:00 | /a | 1\n12:00 | /a | -1\n12:01 | /a | 1"
    driver = made(views().group_by("page").agg(s=Logarithms("x"), n=rr.count()), text)
    assert driver.table("out") == [{"page": "/a", "s": 0.0, "n": 2}]
    (letter,) = [line["value"] for line in driver.outputs["dead"]]
    line = line_of("state.total += math.log(x)")
    assert letter["cause"].startswith("ValueError: math domain error (test_own_aggregates.py:")
    assert f":{line}, in Logarithms" in letter["cause"]
    assert letter["offset"] == 1


def test_what_fails_after_rows_are_added_stops_the_job_with_the_line():
    table = views().group_by("page").agg(s=Logarithms("x"))
    with pytest.raises(JobError, match=r"Logarithms.finish fails") as caught:
        made(table, "at | page | x\n12:00 | /a | 100000")
    assert "TypeError: the result is 'plenty', not DOUBLE" in caught.value.got
    table = views().group_by("page").agg(s=Logarithms("x"))
    with pytest.raises(JobError, match=r"Logarithms.merge fails") as caught:
        made(table, "at | page | x\n12:00 | /a | 1\n----\n12:00 | /a | 100000")
    assert f"test_own_aggregates.py:{line_of('raise ValueError')}" in caught.value.got
    table = views().to_table("user").group_by("page").agg(s=Logarithms("x"))
    with pytest.raises(JobError, match=r"Logarithms.add fails"):
        made(table, "at | user | page | x\n12:00 | ann | /a | -1")


def test_the_driver_notices_what_changes_from_run_to_run():
    class Guess(Sum):
        def finish(self, state):
            return state.total + random.random()

    class Guesses(Sum):
        def add(self, state, x):
            state.total += random.random()

    for kind in (Guess, Guesses):
        with pytest.raises(JobError, match=f"{kind.__name__} gives another result"):
            made(views().group_by("page").agg(s=kind("x")), ROWS)


def test_it_is_described_and_its_state_is_part_of_the_checkpoint():
    table = views().group_by("page", name="step").agg(w=Weighted("x", "y + 1"))
    table.to("out")
    assert ("w", 'Weighted("x", y + 1): STRUCT(mean DOUBLE, weight DOUBLE)') in (
        table.node.does.words().lines
    )
    (frozen,) = shape_of(table.registry.program())["steps"]["step"]["aggregates"]
    assert (frozen["kind"], frozen["state"]) == ("Weighted", '"weights" DOUBLE, "total" DOUBLE')


class Silent(rr.Aggregate): ...


class Stateless(Sum):
    state = ""


class Untyped(Sum):
    returns = ""


class Misspelt(Sum):
    returns = "doubel"


@pytest.mark.parametrize(
    ("fact", "make"),
    {
        "Silent has no add": lambda rows: rows.agg(s=Silent("x")),
        "Sum needs what it is taken of": lambda rows: rows.agg(s=Sum()),
        "add of Sum does not take": lambda rows: rows.agg(s=Sum("x", "y")),
        "there is no column 'z'": lambda rows: rows.agg(s=Sum("z")),
        "Stateless does not say what its state": lambda rows: rows.agg(s=Stateless("x")),
        "Untyped does not say what it returns": lambda rows: rows.agg(s=Untyped("x")),
        "the schema cannot be read": lambda rows: rows.agg(s=Misspelt("x")),
        "'s' is not an aggregate": lambda rows: rows.agg(s=Sum),
    }.items(),
)
def test_what_cannot_be_an_aggregate_is_refused(fact, make):
    with pytest.raises(rr.ProgramError) as caught:
        make(views().group_by("page"))
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__


def test_without_take_back_it_is_refused_over_a_table():
    with pytest.raises(rr.ProgramError, match=r"Least cannot be taken of a table.* no take_back"):
        views().to_table("user").group_by("page").agg(s=Least("x"))
