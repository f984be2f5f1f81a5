"""What used to be found out when it ran: it is refused at its line, or it runs."""

from __future__ import annotations

from typing import Any

import pytest

import riverrun as rr
from riverrun.testing import Driver

SCHEMA = "a int, k string, n int, at timestamp"
RECORD = {"a": 1, "k": "x", "n": 2, "at": "2026-01-01T00:00:00Z"}


def read(schema: str = SCHEMA, app: rr.App | None = None) -> rr.Stream:
    return (app or rr.App("early")).stream("t", schema=schema, time="at")


def computed(expression: str) -> Any:
    return lambda: read().with_columns(z=expression)


def summed(expression: str) -> Any:
    return lambda: read().group_by("k").agg(z=rr.last(expression))


def windowed(schema: str, *keys: str, window: Any = None) -> Any:
    window = window or rr.tumbling("1 minute")
    return lambda: read(schema).group_by(*keys).window(window).agg(count=rr.count())


def compared() -> Any:
    agg = {"n": rr.compared_to("1 minute", rr.count()), "N_earlier": rr.count()}
    return read().group_by("k").window(rr.tumbling("1 minute")).agg(**agg)


REFUSED = {
    "a quote in a name": (lambda: read('"a""b" int, at timestamp'), "cannot have this name"),
    "a star as a name": (lambda: read('"*" int, at timestamp'), "cannot have this name"),
    "a comment as a name": (lambda: read('"/*tick*/" int, at timestamp'), "cannot have this name"),
    "a long number": (lambda: read("z bignum, at timestamp"), "'z' is not supported"),
    "long numbers": (lambda: read("z struct(b bignum[]), at timestamp"), "'z' is not supported"),
    "a capital letter": (lambda: read().with_columns(A="a + 1"), "'A' is there as 'a'"),
    "a key's name": (lambda: read().group_by("a").agg(A=rr.count()), "name 'a' is taken"),
    "two aggregates": (lambda: read().group_by("k").agg(x=rr.count(), X=rr.count()), "is taken"),
    "a compared one": (compared, "'n_earlier' is taken"),
    "a place": (lambda: read().to_table("k").group_by("n").top(1, by="a", place="A"), "is taken"),
    "a mark": (lambda: read().mark_seen("k", into="N"), "'N' is taken"),
    "an op": (lambda: read(f'{SCHEMA}, "Op" int').to_table("k").changes(), "'op' is taken"),
    "a bound": (windowed('"Window_Start" int, at timestamp', "Window_Start"), "is taken"),
    "an event": (windowed(f'{SCHEMA}, "Event" int', "k", window=rr.sliding("1 minute")), "taken"),
    "an interval": (computed("interval 1 day"), "cannot be kept"),
    "intervals": (computed("[{'b': interval 1 day}]"), "cannot be kept"),
    "a union": (computed("union_value(b := a)"), "cannot be kept"),
    "a last interval": (summed("interval 1 day"), "cannot be kept"),
    "a last bignum": (summed("a::bignum"), "cannot be kept"),
    "all columns": (summed("*"), "cannot be used in an expression"),
    "every column": (computed("columns(*)"), "cannot be used in an expression"),
    "a row's number": (computed("rowid"), "no column 'rowid'"),
    "a row's number in a condition": (lambda: read().where("rowid = 0"), "no column 'rowid'"),
    "the checked table": (computed("checked.a"), "cannot be evaluated"),
    "the checked row": (computed("checked"), "no column 'checked'"),
    "a wrong pattern": (computed("regexp_replace(k, '(', 'x')"), "cannot be evaluated"),
    "a wrong pattern to extract": (computed("regexp_extract(k, '*')"), "cannot be evaluated"),
    "a wrong pattern in a condition": (lambda: read().where("k ~ '['"), "cannot be evaluated"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_when_the_program_is_built(what):
    build, message = REFUSED[what]
    with pytest.raises(rr.ProgramError, match=message) as error:
        build()
    assert "test_refused_early.py" in str(error.value.where)


def test_bytes_are_no_key():
    app = rr.App("early")
    read(app=app).with_columns(z="unhex(k)").group_by("z").agg(count=rr.count()).to("out")
    with pytest.raises(rr.ProgramError, match="cannot be grouped by 'z'"):
        Driver(app)


NAMED = ["rowid", '"a b"', '"{x}"', '"a.b"', '"it\'s"', '"--"', '"$1"', "checked", "rows", "lot"]


@pytest.mark.parametrize("column", NAMED)
def test_a_column_may_be_called_anything_else(column):
    app, name = rr.App("early"), column.strip('"')
    rows = read(f"{column} int, k string, at timestamp", app)
    rows.group_by("k").agg(z=rr.sum(name), last=rr.last(name)).to("sums")
    rows.with_columns(z="1").where("z = 1").deduplicate(name, within="1 day").to("rows")
    driver = Driver(app)
    driver.send("t", {name: 7, "k": "x", "at": RECORD["at"]})
    driver.batch()
    assert driver.table("sums") == [{"k": "x", "z": 7, "last": 7}]
    assert driver.outputs["rows"][0]["value"][name] == 7


def test_a_column_window_start_that_is_no_time_is_a_column_like_any_other():
    app = rr.App("early")
    rows = read("window_start string, k string, n int, at timestamp", app)
    table = rows.to_table("k")
    table.group_by("window_start").top(1, by="n").to("out")
    driver = Driver(app)
    driver.send("t", {"window_start": "soon", "k": "a", "n": 1, "at": RECORD["at"]})
    driver.batch()
    assert driver.table("out")[0]["window_start"] == "soon"


def test_a_text_that_looks_like_a_mark_in_a_query_is_left_alone():
    app = rr.App("early")
    read(app=app).with_columns(z="'/*closed*/'").group_by("z").agg(count=rr.count()).to("out")
    driver = Driver(app)
    driver.send("t", RECORD)
    driver.batch()
    assert driver.table("out") == [{"z": "/*closed*/", "count": 1}]


def test_an_interval_may_stand_inside_of_an_expression():
    app = rr.App("early")
    read(app=app).with_columns(z='"at" + interval 1 day').to("out")
    driver = Driver(app)
    driver.send("t", RECORD)
    assert driver.batch()[0]["value"]["z"] == "2026-01-02T00:00:00Z"
