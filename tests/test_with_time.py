"""Several event times of one topic: each has a clock of its own."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import riverrun as rr
from riverrun.compiler.describe import as_text
from riverrun.compiler.passes import passed
from riverrun.errors import ProgramError
from riverrun.testing import Driver

SCHEMA = "flight bigint, origin string, dest string, left timestamp, came timestamp"


def at(minute: int) -> str:
    return f"2026-01-0{1 + minute // 1440}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"


def flights(draw: random.Random, count: int) -> list[dict]:
    """In the order of departure; they arrive up to five hours later."""
    left = sorted(draw.randrange(1200) for _ in range(count))
    return [
        {
            "flight": n, "origin": draw.choice("AB"), "dest": draw.choice("CD"), "left": at(minute),
            "came": at(minute + draw.randrange(30, 300)),
        }
        for n, minute in enumerate(left)
    ]  # fmt: skip


def hourly(stream: rr.Stream, airport: str) -> rr.Table:
    return stream.group_by(airport).window(rr.tumbling("1 hour")).agg(n=rr.count())


def program() -> rr.App:
    app = rr.App("airport", pages=3)
    every = app.stream("flights", schema=SCHEMA, time="left")
    hourly(every, "origin").to("departures")
    landed = every.where("came IS NOT NULL").with_time("came", lateness="5 hours")
    hourly(landed, "dest").to("arrivals")
    return app


@pytest.mark.parametrize("seed", range(3))
def test_departures_and_arrivals_of_one_topic_are_counted_by_their_own_times(seed):
    draw = random.Random(seed)
    driver, rows = Driver(program()), flights(draw, 300)
    for number, row in enumerate(rows):
        driver.send("flights", row, partition=draw.randrange(2))
        if number % 60 == 59:
            driver.batch()
            if draw.random() < 0.5:
                driver.crash()
    driver.end()
    for output, airport, time in (("departures", "origin", "left"), ("arrivals", "dest", "came")):
        found = {
            (line["value"][airport], line["value"]["window_start"][:13]): line["value"]["n"]
            for line in driver.outputs[output]
        }
        assert found == Counter((row[airport], row[time][:13]) for row in rows)
        assert len(driver.outputs[output]) == len(found)
    assert not any(driver.status.late.values())


def test_each_time_moves_its_own_clock():
    driver = Driver(program())
    for left, came in ((10, 100), (130, 450)):
        driver.send(
            "flights",
            {"flight": 1, "origin": "A", "dest": "C", "left": at(left), "came": at(came)},
        )
    found = driver.batch()
    found.of("departures").assert_is("window_start | n\n 00:00 | 1")
    found.of("arrivals").assert_is("window_start | n\n 01:00 | 1")
    clocks = {name: time // 60_000_000 for name, time in driver.last.clocks.items()}
    start = 1_767_225_600 // 60
    assert sorted(clock - start for clock in clocks.values()) == [130, 150]
    assert any("flights@came/0" in str(each) for each in driver.last.holders.values())


def test_an_expression_may_be_the_time_and_a_row_without_is_a_dead_letter():
    app = rr.App("airport", pages=2)
    rows = app.stream("log", schema="day string, n bigint")
    timed = rows.with_columns(d="day || ' 12:00'").with_time("strptime(d, '%d.%m.%Y %H:%M')")
    timed.group_by("n").window(rr.tumbling("1 day")).agg(c=rr.count()).to("out")
    driver = Driver(app)
    for day in ("02.01.2026", "never"):
        driver.send("log", {"day": day, "n": 1})
    found = driver.end()
    assert [line["value"]["window_start"] for line in found if line["output"] == "out"] == [
        "2026-01-02T00:00:00Z"
    ]
    [letter] = driver.outputs["dead"]
    assert "no time: strptime(d" in letter["value"]["cause"]


def test_a_pattern_may_be_ordered_by_it_and_describe_shows_it():
    app = rr.App("airport", pages=2)
    timed = app.stream("flights", schema=SCHEMA, time="left").with_time("came", lateness="1 hour")
    timed.match("""
        PARTITION BY dest ORDER BY came MEASURES A.flight AS flight
        PATTERN (A) WITHIN INTERVAL '1' HOUR DEFINE A AS flight > 0
    """).to("out")
    assert "with_time came, lateness 1 hour" in as_text(passed(app.plan()), Path())


def test_two_times_of_one_name_are_refused():
    app = rr.App("airport")
    every = app.stream("flights", schema=SCHEMA, time="left")
    for airport, lateness in (("dest", "1 hour"), ("origin", "2 hours")):
        hourly(every.with_time("came", lateness=lateness), airport).to(f"out-{airport}")
    with pytest.raises(ProgramError, match="two times of the topic 'flights' have the name 'came'"):
        app.program()


@pytest.mark.parametrize(
    ("fact", "make"),
    {
        "there is no column 'gone'": lambda s: s.with_time("gone"),
        "the time 'flight' is BIGINT": lambda s: s.with_time("flight"),
        "before the first step with state": lambda s: s.deduplicate(
            "flight", within="1 hour"
        ).with_time("came"),
        "a name has letters": lambda s: s.with_time("came", name="a b"),
    }.items(),
)
def test_what_has_no_other_time_is_refused_at_its_line(fact, make):
    stream = rr.App("airport").stream("flights", schema=SCHEMA, time="left")
    with pytest.raises(ProgramError, match=fact) as error:
        make(stream)
    assert "test_with_time.py" in str(error.value.where)
