"""One topic that is read in several ways by one program."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.errors import ProgramError
from riverrun.testing import Driver
from running import produce, table

SCHEMA = "user string, city string, at timestamp"
FILE = """
import riverrun as rr

app = rr.App("read-twice")
moves = app.stream("read-twice-moves", schema="user string, city string, at timestamp", time="at")
latest = app.table(
    "read-twice-moves", name="latest", schema="user string, city string", key="user"
)
moves.group_by("city", name="came").agg(n=rr.count()).to("read-twice-came")
latest.group_by("city", name="live").agg(n=rr.count()).to("read-twice-live")
"""


def test_a_topic_is_a_stream_and_a_table_in_one_program():
    app = rr.App("towns")
    moves = app.stream("moves", schema=SCHEMA, time="at")
    latest = app.table("moves", name="latest", schema="user string, city string", key="user")
    moves.group_by("city", name="came").agg(n=rr.count()).to("came")
    latest.group_by("city", name="live").agg(n=rr.count()).to("live")
    driver = Driver(app)
    driver.run(
        moves="""
        at    | user | city
        12:00 | ann  | rome
        12:01 | bob  | rome
        12:02 | ann  | oslo
    """
    )
    assert {r["city"]: r["n"] for r in driver.table("came")} == {"rome": 2, "oslo": 1}
    assert {r["city"]: r["n"] for r in driver.table("live")} == {"rome": 1, "oslo": 1}
    assert [step.name for step in driver.program.steps] == ["came", "latest", "live"]


def test_a_topic_is_read_twice_with_other_times_and_each_has_its_clock():
    app = rr.App("airport")
    schema = "flight string, leaves timestamp, lands timestamp"
    departures = app.stream("flights", schema=schema, time="leaves")
    arrivals = app.stream("flights", name="arrivals", schema=schema, time="lands")
    for name, stream in (("out", departures), ("in", arrivals)):
        stream.group_by("flight", name=name).window(rr.tumbling("1 hour")).agg(n=rr.count()).to(
            name
        )
    driver = Driver(app)
    lines = driver.run(
        flights="""
        flight | leaves | lands
        a      | 12:10  | 13:50
        a      | 13:05  | 14:40
    """
    )
    found = {(line["output"], line["value"]["window_start"][11:16]) for line in lines}
    assert found == {("out", "12:00"), ("in", "13:00")}


def test_two_readings_need_two_names():
    app = rr.App("towns")
    moves = app.stream("moves", schema=SCHEMA, time="at")
    other = app.stream("moves", schema=SCHEMA)
    moves.union(other).to("out")
    with pytest.raises(ProgramError, match="'moves' is read twice") as refused:
        app.program()
    assert 'name="…"' in str(refused.value)


def test_records_that_fail_in_one_reading_are_dead_letters_of_the_topic():
    app = rr.App("towns")
    app.stream("moves", name="strict", schema="user bigint").to("numbers")
    app.stream("moves", name="any", schema="user string").to("texts")
    driver = Driver(app)
    lines = driver.run(moves="user\nann")
    assert [line["value"] for line in lines if line["output"] == "texts"] == [{"user": "ann"}]
    [letter] = [line["value"] for line in lines if line["output"] == "dead"]
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("moves", 0, 0)


@pytest.mark.broker
@pytest.mark.spark
def test_on_kafka_each_reading_has_its_own_place_and_the_group_is_where_the_last_one_is(
    tmp_path, broker, once, riverrun
):
    file = tmp_path / "app.py"
    file.write_text(FILE)
    moves = [("ann", "rome"), ("bob", "rome"), ("ann", "oslo")]
    values = [{"user": u, "city": c, "at": "2026-01-01T12:00:00Z"} for u, c in moves]
    riverrun("topics", "create", "read-twice-moves", "--partitions", "1")
    produce(broker, "read-twice-moves", values)
    once(file)
    produce(broker, "read-twice-moves", values[:1])
    once(file)
    assert table(broker, "read-twice-came") == {"rome": {"city": "rome", "n": 3}} | {
        "oslo": {"city": "oslo", "n": 1}
    }
    assert table(broker, "read-twice-live") == {"rome": {"city": "rome", "n": 2}}
    lag = json.loads(riverrun("lag", "read-twice", "--json").out)
    assert lag
