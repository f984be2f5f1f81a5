"""The key of a record as a column of a stream."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver


@pytest.mark.parametrize(
    ("type", "key", "found"),
    [
        ("string", "ann", "ann"),
        ("string", "Ünï", "Ünï"),
        ("bigint", "17", 17),
        ("bigint", "no number", None),
        ("double", "1.5", 1.5),
        ("date", '"2026-01-02"', "2026-01-02"),
        ("string", None, None),
    ],
)
def test_a_key_column_that_the_value_lacks_comes_from_the_record(type, key, found):
    app = rr.App("shop", pages=2)
    app.stream("views", schema=f"user {type}, n bigint", key="user").to("out")
    driver = Driver(app)
    driver.send("views", {"n": 1}, key=key)
    [line] = driver.batch()
    assert line["value"] == {"user": found, "n": 1}


def test_what_the_value_says_of_the_key_comes_first_and_groups_go_by_it():
    app = rr.App("shop", pages=2)
    views = app.stream("views", schema="user string, n bigint", key="user")
    views.group_by("user").agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("views", {"n": 1}, key="ann")
    driver.send("views", {"user": "ann", "n": 1}, key="bob")
    driver.send("views", {"user": None, "n": 1}, key="bob")
    driver.batch()
    assert {row["user"]: row["n"] for row in driver.table("out")} == {"ann": 2, "bob": 1}


def test_without_a_declared_key_nothing_is_taken_from_the_record():
    app = rr.App("shop", pages=2)
    app.stream("views", schema="user string, n bigint").to("out")
    driver = Driver(app)
    driver.send("views", {"n": 1}, key="ann")
    assert [line["value"]["user"] for line in driver.batch()] == [None]
