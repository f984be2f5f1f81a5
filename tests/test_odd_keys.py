"""Keys that are odd: structs with nulls in them, zeros below zero, what is no number."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import duckdb
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver


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


def by_key(rows: rr.Stream, others: rr.Stream | None = None) -> dict[str, Any]:
    """Every operator with a key."""

    def by(name: str) -> Any:
        return rows.group_by("k", name=name)

    present = rows.where("k is not null")
    numbered, latest = rows.to_table("n", name="numbered"), present.to_table("k", name="latest")
    windows = {
        "tumbling": rr.tumbling("1 minute"),
        "hopping": rr.hopping("2 minutes", "1 minute"),
        "sliding": rr.sliding("1 minute"),
        "session": rr.session("1 minute"),
    }
    found = {n: counted(by(n).window(each, emit="changes")) for n, each in windows.items()}
    found |= {
        "all": counted(by("all")),
        "two": counted(rows.with_columns(g="n % 2").group_by("g", "k", name="two")),
        "of_table": counted(numbered.group_by("k", name="of_table")),
        "once": rows.deduplicate("k", within="1 day"),
        "seen": rows.mark_seen("k"),
        "table": latest,
        "top": numbered.group_by("k", name="top").top(2, by="n", place="place"),
        "top_keys": latest.with_columns(g="1").group_by("g").top(3, by="n", place="place"),
        "changes": latest.changes().where("op = '+'").group_by("k").agg(last=rr.last("n")),
        "process": rows.process(Counting, by="k").stream,
        "frames": rows.process(Summing, by="k").stream,
    }
    return found if others is None else found | joined(rows, others, latest)


def joined(rows: rr.Stream, others: rr.Stream, latest: rr.Table) -> dict[str, Any]:
    others = others.select("k", m="n")
    table = others.where("k is not null").to_table("k", name="right")
    versions = rows.join(table, on="k", how="left", as_of="event time", name="versions")
    return {
        "streams": rows.join(others, on="k", within="1 day", how="full", name="streams"),
        "versions": versions.select("k", "n", "m"),
        "tables": latest.join(table, on="k", how="full", name="tables"),
    }


def final(driver: Driver) -> dict[str, Counter[str]]:
    """What stands in the end, as text."""
    found = {}
    for name, lines in driver.outputs.items():
        rows: Counter[str] = Counter()
        for line in lines:
            rows[repr(line["value"])] += 1 if line["op"] == "+" else -1
        found[name] = +rows
    return found


def run(app: rr.App, records: list[Any], cuts: list[int]) -> dict[str, Counter[str]]:
    """What stands after the records, in batches that end at the cuts."""
    driver = Driver(app)
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        for topic in driver.program.topics:
            driver.send(topic, *records[start:end])
        driver.batch()
    driver.end()
    assert not driver.status.causes
    return final(driver)


def records_of(values: list[Any]) -> list[dict[str, Any]]:
    return [{"k": v, "n": n, "at": f"2026-01-01T12:00:{n:02d}Z"} for n, v in enumerate(values)]


def read(app: rr.App, topic: str, type: str) -> rr.Stream:
    schema = f"k {type}, n bigint, at timestamp"
    return app.stream(topic, schema=schema, time="at", lateness="1 hour")


STRUCTS = [{}, {"a": 1}, {"b": {"c": "x"}}, {"b": {}}, None, {"a": 1, "b": {"c": "x"}}, {"a": None}]


def test_a_struct_with_nulls_in_it_is_a_key_like_any_other():
    app = rr.App("keys", pages=3)
    for name, rows in by_key(read(app, "t", "struct(a int, b struct(c varchar))")).items():
        rows.to(name)
    records = records_of(STRUCTS * 2)
    whole = run(app, records, [])
    assert run(app, records, [3, 9]) == whole
    assert len(whole["all"]) == len(STRUCTS) - 1  # two of them are the same


@cache
def of_floats() -> rr.App:
    app = rr.App("keys", pages=3)
    left, right = (read(app, topic, "string").with_columns(k="k::double") for topic in "tu")
    for name, rows in by_key(left, right).items():
        rows.to(name)
    return app


ODD = [None, "0.0", "-0.0", "nan", "-nan", "inf", "-inf", "1.5", "5e-324", "1e300"]


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(ODD), min_size=4, max_size=16), st.sets(st.integers(1, 3)))
@example([*ODD, *reversed(ODD)], {2, 3, 9, 13})
def test_one_number_is_one_key_however_it_is_written_and_batches_are_cut(values, cuts):
    records = records_of(values)
    whole = run(of_floats(), records, [])
    assert run(of_floats(), records, sorted(cuts)) == whole
    texts = ", ".join("(null)" if v is None else f"('{v}')" for v in values)
    asked = f"SELECT count(*) FROM (VALUES {texts}) AS t(k) GROUP BY k::DOUBLE"
    counts = Counter(row[0] for row in duckdb.sql(asked).fetchall())
    assert counts == Counter(eval(row, {"nan": 0, "inf": 0})["count"] for row in whole["all"])
