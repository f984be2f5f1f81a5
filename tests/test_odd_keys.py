"""Keys that are odd: structs with nulls in them, zeros below zero, what is no number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver

SCHEMA = "k {type}, n bigint, at timestamp"
Program = Callable[[Any], Any]


class Counting(rr.Processor):
    state = "n bigint default 0"
    outputs = {"out": "k varchar, n bigint"}

    def on_event(self, event, state, context):
        state.n += event.n
        context.timer("end", context.time)

    def on_timer(self, name, state, context):
        context.emit("out", k=repr(context.key["k"]), n=state.n)


class Summing(rr.FrameProcessor):
    state = "total bigint default 0, timer timestamp"
    outputs = {"out": "total bigint"}

    def on_frame(self, events, state, context):
        both = pl.concat([state, events.select("k", total="n", timer="__at")])
        return {"state": both.group_by("k").agg(pl.col("total").sum(), pl.col("timer").max())}

    def on_timers(self, due, context):
        return {"out": due.select("total", __at="timer"), "state": due}


def counted(grouped: Any) -> Any:
    return grouped.agg(count=rr.count(), total=rr.sum("n"))


def windowed(window: Any) -> Program:
    return lambda rows: counted(rows.group_by("k").window(window, emit="changes"))


BY_KEY: dict[str, Program] = {
    "all time": lambda rows: counted(rows.group_by("k")),
    "tumbling": windowed(rr.tumbling("1 minute")),
    "hopping": windowed(rr.hopping("2 minutes", "1 minute")),
    "sliding": windowed(rr.sliding("1 minute")),
    "session": windowed(rr.session("1 minute")),
    "two keys": lambda rows: counted(rows.with_columns(g="n % 2").group_by("g", "k")),
    "of a table": lambda rows: counted(rows.to_table("n").group_by("k")),
    "deduplicate": lambda rows: rows.deduplicate("k", within="1 day"),
    "mark seen": lambda rows: rows.mark_seen("k"),
    "to table": lambda rows: rows.where("k is not null").to_table("k"),
    "top": lambda rows: rows.to_table("n").group_by("k").top(2, by="n", place="place"),
    "top of keys": lambda rows: (
        rows.where("k is not null").with_columns(g="1").to_table("k")
        .group_by("g").top(3, by="n", place="place")
    ),
    "changes": lambda rows: (
        rows.where("k is not null").to_table("k").changes()
        .where("op = '+'").group_by("k").agg(last=rr.last("n"))
    ),
    "process": lambda rows: rows.process(Counting, by="k").stream,
    "frames": lambda rows: rows.process(Summing, by="k").stream,
}  # fmt: skip


def final(driver: Driver) -> Counter[str]:
    """What stands in the end, as text."""
    found: Counter[str] = Counter()
    for line in driver.outputs["out"]:
        found[repr(line["value"])] += 1 if line["op"] == "+" else -1
    return +found


def run(program: Program, rows: Program, records: list[Any], cuts: list[int]) -> Counter[str]:
    """What stands after the records, in batches that end at the cuts."""
    app = rr.App("keys", pages=3)
    program(rows(app)).to("out")
    driver = Driver(app)
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        driver.send("t", *records[start:end])
        driver.batch()
    driver.end()
    assert not driver.status.causes
    return final(driver)


def records_of(values: list[Any]) -> list[dict[str, Any]]:
    return [{"k": v, "n": n, "at": f"2026-01-01T12:00:{n:02d}Z"} for n, v in enumerate(values)]


def structs(app: rr.App) -> rr.Stream:
    schema = SCHEMA.format(type="struct(a int, b struct(c varchar))")
    return app.stream("t", schema=schema, time="at", lateness="1 hour")


STRUCTS = [{}, {"a": 1}, {"b": {"c": "x"}}, {"b": {}}, None, {"a": 1, "b": {"c": "x"}}, {"a": None}]


@pytest.mark.parametrize("name", BY_KEY)
def test_a_struct_with_nulls_in_it_is_a_key_like_any_other(name):
    records = records_of(STRUCTS * 2)
    whole = run(BY_KEY[name], structs, records, [])
    assert run(BY_KEY[name], structs, records, [3, 9]) == whole
    if name == "all time":
        assert len(whole) == len(STRUCTS) - 1  # two of them are the same


def floats(type: str) -> Program:
    def rows(app: rr.App) -> rr.Stream:
        read = app.stream("t", schema=SCHEMA.format(type="string"), time="at", lateness="1 hour")
        return read.with_columns(k=f"k::{type}")

    return rows


ODD = [None, "0.0", "-0.0", "nan", "-nan", "inf", "-inf", "1.5", "5e-324", "1e300"]


@pytest.mark.parametrize("name", BY_KEY)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_one_number_is_one_key_however_it_is_written_and_batches_are_cut(name, data):
    values = data.draw(st.lists(st.sampled_from(ODD), min_size=2, max_size=12))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(values) - 1), max_size=3)))
    records = records_of(values)
    whole = run(BY_KEY[name], floats("double"), records, [])
    assert run(BY_KEY[name], floats("double"), records, cuts) == whole
    if name == "all time":
        texts = ", ".join("(null)" if v is None else f"('{v}')" for v in values)
        asked = f"SELECT count(*) FROM (VALUES {texts}) AS t(k) GROUP BY k::DOUBLE"
        counts = Counter(row[0] for row in duckdb.sql(asked).fetchall())
        assert counts == Counter(eval(row, {"nan": 0, "inf": 0})["count"] for row in whole)
