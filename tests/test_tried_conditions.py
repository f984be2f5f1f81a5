"""Conditions of stored queries and rules that fail: they do not hold there, and the job goes on."""

from __future__ import annotations

import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.control import ANSWER
from riverrun.kernels.sql import Evaluator
from riverrun.kernels.trying import tried
from riverrun.testing import Driver

ZONE = "timezone(t, TIMESTAMP '2026-01-01') > TIMESTAMPTZ '2025-12-31'"
"""What DuckDB's own TRY does not take the error of."""
ESCAPE = "t LIKE 'a%' ESCAPE t"


def program():
    app = rr.App("news", pages=1)
    documents = app.stream("docs", schema="id bigint, t string, at timestamp", time="at")
    documents.search("saved", text="t", keep="id").to("out")
    return app


def ruled():
    app = rr.App("pay", pages=1)
    payments = app.stream("pays", schema="id bigint, t string, at timestamp", time="at")
    found = payments.match_rules("fraud", by="id", longest="1 hour", measures="z varchar")
    found.to("out")
    return app


def asked(where):
    """What is said of a condition, and the documents that it holds for."""
    driver = Driver(program())
    driver.control("query", "saved", name="q", query="utc OR nowhere OR berlin", where=where)
    driver.control("query", "saved", name="other", query="utc", where="id = 0")
    for number, text in enumerate(("UTC", "nowhere", "Europe/Berlin")):
        driver.send("docs", {"id": number, "t": text, "at": f"2026-01-01T12:00:0{number}Z"})
    driver.batch()
    driver.end()
    [answer, other] = [each.body for each in driver.topics.asked if each.kind == ANSWER]
    assert "refused" not in other
    lines = [(line["value"]["query"], line["value"]["id"]) for line in driver.outputs["out"]]
    assert ("other", 0) in lines
    return answer.get("refused"), sorted(each for name, each in lines if name == "q")


@pytest.mark.parametrize(
    "where",
    [
        "error('x') IS NULL",
        "CASE WHEN id = 1 THEN error('boom') IS NULL ELSE true END",
        "assert_true(id = 1) IS NULL",
    ],
)
def test_a_condition_that_cannot_be_tried_is_refused_when_it_is_added(where):
    refused, found = asked(where)
    assert refused["fact"] == "a condition calls a function that cannot be tried"
    assert found == []


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        (ZONE, [0, 2]),
        (f"NOT ({ESCAPE})", []),
        ("10 // (id - 1) > 0", [2]),
        ("(id + 9223372036854775806) % 2 = 0", [0]),
        ("regexp_matches('a', '(' || t)", []),
        ("t::bigint = 1 OR id = 2", []),
    ],
)
def test_a_condition_that_fails_on_a_document_does_not_hold_there_and_the_job_goes_on(where, holds):
    assert asked(where) == (None, holds)


@pytest.mark.parametrize(
    ("where", "fact", "place"),
    [
        ("len(range(1000000000)) > 1", "range() cannot be used here", 5),
        ("t.REPEAT(1000000000) = ''", "repeat() cannot be used here", 1),
        ("list_reduce([t, t], lambda a, b: a || a) = ''", "list_reduce() cannot be used here", 1),
        ("regexp_replace(t, '', t, 'g') = ''", "regexp_replace() puts in a constant here", 1),
        ("t.replace('a', t) = ''", "replace() puts in a constant here", 1),
    ],
)
def test_a_condition_that_would_take_all_memory_is_refused_at_its_place(where, fact, place):
    refused, found = asked(where)
    assert (refused["fact"], found) == (fact, [])
    assert refused["where"] == f"character {place} of the condition"


def test_a_condition_may_replace_text_by_a_constant():
    assert asked("regexp_replace(t.replace('U', 'u'), '[TC]+', '') = 'u'") == (None, [0])


def test_a_rule_that_fails_on_a_row_does_not_hold_there_and_the_job_goes_on():
    driver = Driver(ruled())
    pattern = "MEASURES a.t AS z PATTERN (a) WITHIN INTERVAL '1' MINUTE DEFINE a AS "
    driver.control("rule", "fraud", name="zones", pattern=pattern + ZONE)
    near = f"id >= 0 AND coalesce(PREV(t), 'UTC') = 'UTC' AND {ZONE.replace('t,', 'NEXT(t),')}"
    driver.control("rule", "fraud", name="near", pattern=pattern + near)
    driver.control("rule", "fraud", name="named", pattern=pattern + "t = 'nowhere'")
    for number, text in enumerate(("UTC", "nowhere", "Europe/Berlin")):
        driver.send("pays", {"id": 1, "t": text, "at": f"2026-01-01T12:00:0{number}Z"})
    driver.batch()
    driver.end()
    lines = [(line["value"]["rule"], line["value"]["z"]) for line in driver.outputs["out"]]
    assert sorted(lines) == [
        ("named", "nowhere"), ("near", "nowhere"), ("zones", "Europe/Berlin"), ("zones", "UTC"),
    ]  # fmt: skip


def test_what_fails_is_null_on_the_rows_that_it_fails_on():
    rows = pa.table({"t": ["UTC", "nowhere", None, "Europe/Berlin"], "n": [1, 2, 3, 4]})
    made = tried(Evaluator(), {"a": ZONE, "b": "n > 2", "c": "t::bigint", "d": "n"}, rows)
    assert made.to_pydict() == {
        "a": [True, None, None, True],
        "b": [False, False, True, True],
        "c": [None] * 4,
        "d": [1, 2, 3, 4],
    }
