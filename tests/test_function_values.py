"""What a function returns fits its type, however deep, or the row is a dead letter."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

import riverrun as rr
from riverrun.testing import Driver

FITTING = [
    ("struct(a int)", {"a": 1}, {"a": 1}),
    ("struct(a int)", {"a": None}, {"a": None}),
    ("struct(a int)", None, None),
    ("int[]", (1, None), [1, None]),
    ("int[2]", [1, 2], [1, 2]),
    ("map(string, int)", {"a": 1}, {"a": 1}),
    ("struct(a struct(b double)[])", {"a": [{"b": 1}]}, {"a": [{"b": 1.0}]}),
    ("decimal(9, 2)", Decimal("1.5"), 1.5),
    ("decimal(18, 2)[]", [Decimal("1234567890123456.78")], [Decimal("1234567890123456.78")]),
    ("decimal(38, 10)", Decimal("9" * 28 + "." + "9" * 10), Decimal("9" * 28 + "." + "9" * 10)),
    (
        "timestamp[]",
        [datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))],
        ["2026-01-01T00:00:00Z"],
    ),
]
OTHERS = [
    ("struct(a int)", {"a": 1.5}, "the result.a is 1.5, not INTEGER"),
    ("struct(a int)", {"b": 1}, "the result is {'b': 1}, not STRUCT(a INTEGER)"),
    ("struct(a int)", {"a": 1, "b": 2}, "the result is {'a': 1, 'b': 2}, not STRUCT(a INTEGER)"),
    ("struct(a int)", 5, "the result is 5, not STRUCT(a INTEGER)"),
    ("struct(a struct(b int)[])", {"a": [{"b": 1.5}]}, "the result.a[].b is 1.5, not INTEGER"),
    ("int[]", [1.5], "the result[] is 1.5, not INTEGER"),
    ("int[]", "12", "the result is '12', not INTEGER[]"),
    ("int[2]", [1], "the result is [1], not INTEGER[2]"),
    ("map(string, int)", {"a": 1.5}, "the result[] is 1.5, not INTEGER"),
    ("map(string, int)", {1: 1}, "the result[] is 1, not VARCHAR"),
    ("date[]", [datetime(2026, 1, 1, 12, tzinfo=UTC)], "not DATE"),
    ("timestamp[]", [date(2026, 1, 1)], "not TIMESTAMP"),
    ("decimal(9, 2)", Decimal("1.005"), "the result is Decimal('1.005'), not DECIMAL(9,2)"),
    ("decimal(9, 2)[]", [1.5], "the result[] is 1.5, not DECIMAL(9,2)"),
    ("decimal(9, 2)", 10**8, "the result is 100000000, not DECIMAL(9,2)"),
    ("float", 1e300, "the result is 1e+300, not FLOAT"),
]


def returned(type, value) -> Driver:
    @rr.function(type)
    def made(n: int):
        return value

    app = rr.App("functions")
    app.stream("t", schema="n bigint").select(x="made(n)").to("out")
    driver = Driver(app)
    driver.send("t", {"n": 1})
    driver.batch()
    return driver


@pytest.mark.parametrize(("type", "value", "leaves"), FITTING)
def test_what_a_function_returns_is_what_leaves(type, value, leaves):
    [line] = returned(type, value).outputs["out"]
    assert line["value"]["x"] == leaves


@pytest.mark.parametrize(("type", "value", "cause"), OTHERS)
def test_nothing_that_a_function_returns_is_cut(type, value, cause):
    driver = returned(type, value)
    assert driver.outputs["out"] == []
    [letter] = driver.outputs["dead"]
    assert cause in letter["value"]["cause"]
