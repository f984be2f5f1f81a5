"""Programs whose `keep` changes while state stays, and what grows without one."""

from __future__ import annotations

from datetime import timedelta

import pytest

import riverrun as rr
from keeping import NOON, SCHEMA, sent
from riverrun.compiler import upgrades
from riverrun.compiler.growth import growing
from riverrun.compiler.shape import shape
from riverrun.errors import CheckpointError
from riverrun.testing import Driver


def grouped(keep, *, over=None, aggregates=None):
    """A program, with `keep` where it is given."""
    app = rr.App("again", pages=2)
    rows = app.stream("rows", schema=SCHEMA, time="at")
    rows.group_by("k", name="groups", keep=keep).agg(**(aggregates or {"n": rr.count()})).to("out")
    table = rows.to_table("k", name="table", keep=keep)
    table.to("table")
    last = app.table("topic", schema="k string, v bigint", key="k", keep=keep)
    last.to("last")
    table.group_by("v", name="values", keep=over).agg(n=rr.count()).to("values")
    return app


def test_keep_may_come_and_change_while_state_stays():
    outputs = ("out", "table", "last")
    driver = Driver(grouped(None))
    tell(driver, 0, "a", "b")
    driver.restart(grouped("100 seconds"))
    tell(driver, 1000, "b")
    tell(driver, 1150, "c")  # of a nothing is known: it has not changed since
    for output in outputs:
        assert state_of(driver, output) == ["a", "c"], output
    tell(driver, 1160, "a")
    driver.restart(grouped("50 seconds"))
    tell(driver, 1215, "d")  # c was to stay until 1250
    assert state_of(driver, "table") == ["a", "c", "d"]
    tell(driver, 1266, "e")
    for output in outputs:
        assert state_of(driver, output) == ["e"], output
    driver.restart(grouped("200 seconds"))
    tell(driver, 1400, "f")  # e has 200 seconds now
    for output in outputs:
        assert state_of(driver, output) == ["e", "f"], output
    tell(driver, 1467, "f")
    assert driver.table("out") == [{"k": "f", "n": 2}]


def tell(driver, time, *keys):
    for key in keys:
        driver.send("rows", sent((time, 0, key, 1, False)))
        stamp = int((NOON + timedelta(seconds=time)).timestamp() * 1000)
        driver.send("topic", {"k": key, "v": time}, key=key, timestamp=stamp)
    driver.batch()


def state_of(driver, output):
    return [each["k"] for each in driver.table(output)]


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (grouped("1 day"), grouped(None), "other window"),
        (grouped(None), grouped(None, over="1 day"), "with and without keep"),
        (grouped(None, over="1 day"), grouped(None), "with and without keep"),
    ],
)
def test_what_state_cannot_tell_is_refused(before, now, why):
    with pytest.raises(CheckpointError, match=why):
        upgrades.require_fit(shape(before.program()), shape(now.program()), "here")


def test_upgrades_say_what_becomes_of_groups():
    aggregates = {"n": rr.count(), "v": rr.sum("v")}
    pairs = [
        (grouped(None), grouped("1 day")),
        (grouped(None), grouped("1 day", aggregates=aggregates)),
        (grouped("1 day", over="1 day"), grouped("2 days", over="2 days")),
    ]
    told = [upgrades.verdicts(*(shape(each.program()) for each in pair)) for pair in pairs]
    said = [{v.name: (v.outcome, v.why) for v in each if v.part == "step"} for each in told]
    begins = "groups end, the ones that are there after their next row"
    kept = "other keep; holds from the next batch on"
    assert said[0]["groups"] == ("resumes", f"{begins}; {kept}")
    assert said[0]["table"] == ("resumes", kept)
    assert said[1]["groups"] == ("resumes", f"{begins}; v starts from now on, null before; {kept}")
    assert {each[1] for each in said[2].values()} == {kept, None}


def test_what_grows_without_an_end_is_told():
    app = rr.App("grows")
    rows = app.stream("rows", schema=SCHEMA, time="at")
    users = app.table("users", schema="k string, c string", key="k")
    table = rows.to_table("k", delete="gone", name="table")
    table.group_by("v", name="values").agg(n=rr.count()).to("values")
    table.group_by("v", name="few", keep="1 day").agg(n=rr.count()).to("few")
    rows.to_table("k", keep="1 day", name="ends").group_by("v", name="best").top(1, by="at").to(
        "best"
    )
    windows = rows.group_by("k", name="per").window(rr.tumbling("1 hour")).agg(n=rr.count())
    windows.group_by("window_start", name="hours").agg(n=rr.sum("n")).to("hours")
    windows.group_by("k", name="totals").agg(n=rr.sum("n")).to("totals")
    rows.group_by("k", name="ever").agg(n=rr.count()).to("ever")
    rows.group_by("k", name="month", keep="30 days").agg(n=rr.count()).to("month")
    rows.join(users, on="k", name="joined").to("joined")
    assert growing(app.program()) == {
        "table": "a row of every k, deleted or not",
        "values": "the rows of table",
        "totals": "the rows of per",
        "ever": "a row of every k",
        "joined": "a row of every k of the table",
    }
