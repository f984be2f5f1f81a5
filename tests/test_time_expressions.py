"""Event time that is worked out: from text in another format, from numbers, from the key."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.errors import ProgramError
from riverrun.testing import Driver

TIMES = {
    "strptime(day || ' ' || hour, '%d.%m.%Y %H:%M')": {"day": "01.02.2026", "hour": "12:30"},
    "to_timestamp(seconds)": {"seconds": 1769949000},
    "make_timestamp(micros)": {"micros": 1769949000000000},
    "CAST(split_part(_key, '|', 2) AS timestamp)": {},
    "at - INTERVAL 1 HOUR": {"at": "2026-02-01T13:30:00Z"},
}
SCHEMA = "day string, hour string, seconds bigint, micros bigint, at timestamp"


@pytest.mark.parametrize("time", TIMES)
def test_a_window_goes_by_the_time_that_an_expression_gives(time):
    app = rr.App("shop", pages=2)
    events = app.stream("events", schema=SCHEMA, time=time)
    events.group_by("day").window(rr.tumbling("1 hour")).agg(
        n=rr.count(), when=rr.max("event_time")
    ).to("out")
    driver = Driver(app)
    driver.send("events", TIMES[time], key="a|2026-02-01 12:30:00")
    [line] = driver.end()
    assert line["value"]["window_start"] == "2026-02-01T12:00:00Z"
    assert line["value"]["when"] == "2026-02-01T12:30:00Z"


def test_a_record_of_which_it_gives_none_is_a_dead_letter():
    app = rr.App("shop", pages=2)
    app.stream("events", schema="day string", time="strptime(day, '%d.%m.%Y')").to("out")
    driver = Driver(app)
    for day in ("31.12.2025", "tomorrow", None):
        driver.send("events", {"day": day})
    driver.batch()
    assert [line["value"]["day"] for line in driver.outputs["out"]] == ["31.12.2025"]
    causes = [line["value"]["cause"] for line in driver.outputs["dead"]]
    assert causes == ["no time: strptime(day, '%d.%m.%Y') gives none"] * 2


def test_a_table_may_have_such_a_time_too_for_joins_as_of_event_time():
    app = rr.App("shop", pages=2)
    prices = app.table(
        "prices", schema="id string, price bigint, day string", key="id",
        time="strptime(day, '%d.%m.%Y')",
    )  # fmt: skip
    sales = app.stream("sales", schema="id string, at timestamp", time="at")
    sales.join(prices, on="id", as_of="event time").select("id", "price").to("out")
    driver = Driver(app)
    for price, day in ((1, "01.01.2026"), (2, "03.01.2026")):
        driver.send("prices", {"id": "a", "price": price, "day": day}, key="a")
    driver.send("sales", {"id": "a", "at": "2026-01-02T00:00:00Z"})
    assert [line["value"]["price"] for line in driver.end()] == [1]


@pytest.mark.parametrize(
    ("fact", "time"),
    {
        "there is no column 'nothing'": "nothing",
        "the time 'n \\+ 1' is BIGINT, not a timestamp": "n + 1",
        "an expression cannot be evaluated": "strptime(n, '%Y'",
        "cannot be used in an expression": "now() + INTERVAL 1 HOUR",
    }.items(),
)
def test_what_is_no_time_is_refused_at_its_line(fact, time):
    with pytest.raises(ProgramError, match=fact) as error:
        rr.App("shop").stream("events", schema="n bigint", time=time)
    assert "test_time_expressions.py" in str(error.value.where)
