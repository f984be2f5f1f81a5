"""Records that cannot be read or computed are set aside, with their cause; the others go on."""

from __future__ import annotations

import base64

import pytest

import riverrun as rr
from riverrun.testing import Driver

AT = "2026-01-01T12:00:00Z"


def program():
    app = rr.App("shop", pages=2)
    views = app.stream(
        "views", schema="page string, ms bigint, tags bigint[], at timestamp", time="at"
    )
    views.to("good")
    return app


def dead(driver, *values, **options):
    driver.send("views", *values, **options)
    return [line["value"] for line in driver.batch().of("dead")]


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("not json", "the value is not JSON"),
        ('{"page": "/a"} and more', "the value is not JSON"),
        ("", "the value is empty or not UTF-8 text"),
        (None, "the value is empty or not UTF-8 text"),
        (b"\xff\xfe", "the value is empty or not UTF-8 text"),
        ("[1, 2]", "the value is not a JSON object"),
        ("3", "the value is not a JSON object"),
        ("null", "the value is not a JSON object"),
        ({"ms": "slow", "at": AT}, "ms is not a BIGINT: slow"),
        ({"ms": {"a": 1}, "at": AT}, 'ms is not a BIGINT: {"a":1}'),
        ({"tags": "x", "at": AT}, "tags is not a BIGINT[]: x"),
        ({"tags": [1, None, "x"], "at": AT}, 'tags is not a BIGINT[]: [1,null,"x"]'),
        ({"at": "yesterday"}, "at is not a TIMESTAMP: yesterday"),
        ({"page": "/a"}, "no time: at is missing"),
        ({"page": "/a", "at": None}, "no time: at is missing"),
    ],
)
def test_a_bad_record_is_set_aside_with_its_cause(value, cause):
    driver = Driver(program())
    letters = dead(driver, {"page": "/a", "at": AT}, value, {"page": "/b", "at": AT})
    assert [letter["cause"] for letter in letters] == [cause]
    assert [line["value"]["page"] for line in driver.outputs["good"]] == ["/a", "/b"]
    assert driver.status.dead == 1


def test_a_dead_letter_tells_where_the_record_came_from_and_holds_it():
    driver = Driver(program())
    driver.send("views", {"at": AT}, partition=3)
    assert dead(driver, "oops", key="user 1", partition=3, timestamp=1_767_268_800_500) == [
        {
            "topic": "views",
            "partition": 3,
            "offset": 1,
            "timestamp": "2026-01-01T12:00:00.500000Z",
            "step": "decode",
            "cause": "the value is not JSON",
            "key": "user 1",
            "key_base64": None,
            "value": "oops",
            "value_base64": None,
            "headers": None,
            "row": None,
            "cut": None,
        }
    ]


def test_bytes_that_are_not_text_are_kept():
    letter = dead(Driver(program()), b"\xff\xfe{}")[0]
    assert letter["value"] is None
    assert base64.b64decode(letter["value_base64"]) == b"\xff\xfe{}"


def test_a_key_that_is_not_text_is_a_dead_letter_where_it_is_used():
    app = rr.App("shop", pages=2)
    app.stream("views", schema="page string").select("page", k="_key").to("good")
    driver = Driver(app)
    driver.send("views", {"page": "/a"}, key=b"\xff\xfe")
    driver.send("views", {"page": "/b"}, key="b")
    driver.send("views", {"page": "/c"})
    out = driver.batch()
    [letter] = [line["value"] for line in out.of("dead")]
    assert letter["cause"] == "its key is not UTF-8"
    assert base64.b64decode(letter["key_base64"]) == b"\xff\xfe"
    assert [line["value"]["k"] for line in out.of("good")] == ["b", None]


@pytest.mark.parametrize("value", [{"at": AT}, {"at": AT, "tags": [None]}, {"at": AT, "ms": None}])
def test_fields_that_are_missing_or_null_are_not_a_fault(value):
    assert dead(Driver(program()), value) == []


def test_a_row_that_an_expression_fails_on_is_set_aside_alone():
    app = rr.App("shop", pages=2)
    views = app.stream("views", schema="page string, at timestamp", time="at")
    views.select("page", number="cast(page as bigint)").to("numbers")
    driver = Driver(app)
    pages = [str(number) for number in range(100)]
    pages[37], pages[99] = "x", "y"
    letters = dead(driver, *({"page": page, "at": AT} for page in pages))
    assert [(letter["offset"], letter["value"]) for letter in letters] == [
        (37, f'{{"page": "x", "at": "{AT}"}}'),
        (99, f'{{"page": "y", "at": "{AT}"}}'),
    ]
    assert "Could not convert string 'x' to INT64" in letters[0]["cause"]
    assert letters[0]["step"].startswith(__file__)
    assert len(driver.outputs["numbers"]) == 98
    assert driver.status.dead == 2


def test_a_row_that_an_aggregate_fails_on_is_set_aside_alone():
    app = rr.App("shop", pages=2)
    views = app.stream("views", schema="page string, ms string, at timestamp", time="at")
    counted = views.group_by("page").window(rr.tumbling("1 minute"))
    counted.agg(n=rr.count(), ms=rr.sum("cast(ms as int)")).to("out")
    driver = Driver(app)
    rows = [{"page": "/a", "ms": ms, "at": AT} for ms in ("1", "2", "x", "4")]
    assert [letter["offset"] for letter in dead(driver, *rows)] == [2]
    driver.end()
    assert [(row["n"], row["ms"]) for row in driver.table("out")] == [(3, 7)]


def test_a_record_that_fails_in_two_branches_is_one_dead_letter():
    app = rr.App("shop", pages=2)
    views = app.stream("views", schema="page string, at timestamp", time="at")
    views.select(a="cast(page as int)").to("a")
    views.select(b="cast(page as int)").to("b")
    views.to("all")
    driver = Driver(app)
    assert len(dead(driver, {"page": "x", "at": AT})) == 1
    assert driver.status.dead == 1
    assert len(driver.outputs["all"]) == 1, "the branch that does not fail has its row"


def test_a_bad_record_does_not_move_the_clock():
    app = rr.App("shop", pages=2)
    views = app.stream("views", schema="page string, ms int, at timestamp", time="at")
    views.group_by("page").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("out")
    driver = Driver(app)
    dead(driver, {"page": "/a", "at": AT}, {"ms": "x", "at": "2030-01-01T00:00:00Z"})
    assert driver.outputs["out"] == []
