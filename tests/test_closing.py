"""The end of a backfill: what is open closes, and newer events of a later run are on time."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import timedelta

import pytest

import riverrun as rr
from riverrun.kafka import admin
from riverrun.testing import Driver
from running import produce, records

START = 1_767_225_600


def at(seconds: int) -> str:
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def clicks(app: rr.App, topic: str = "clicks", **options: object) -> rr.Stream:
    return app.stream(topic, schema="user string, n bigint, at timestamp", time="at", **options)


def per_minute(app: rr.App, **options: object) -> rr.Table:
    windows = clicks(app).group_by("user").window(rr.tumbling("1 minute"), **options)
    return windows.agg(n=rr.count())


def send(driver: Driver, *events: tuple[str, int], topic: str = "clicks") -> None:
    for number, (user, second) in enumerate(events):
        driver.send(topic, {"user": user, "n": number, "at": at(second)})


class Reminder(rr.Processor):
    state = "seen boolean"
    outputs = {"late": "user string"}

    def on_event(self, event, state, context):
        context.timer("later", context.time + timedelta(days=1))

    def on_timer(self, name, state, context):
        context.emit("late", user=context.key["user"])


WINDOWS = {
    "tumbling": rr.tumbling("1 minute"),
    "hopping": rr.hopping("1 minute", "20 seconds"),
    "session": rr.session("30 seconds"),
    "sliding": rr.sliding("1 minute"),
}


@pytest.mark.parametrize("updatable", ["0 seconds", "1 hour"])
@pytest.mark.parametrize("emit", ["ready", "final"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_closing_gives_what_the_end_of_all_time_gives(window, emit, updatable):
    """Random events, also late ones, and the same rows in the end."""
    draw = random.Random(3)
    events = [("abc"[draw.randrange(3)], draw.randrange(600)) for _ in range(200)]
    found = []
    for end in (Driver.end, Driver.close):
        app = rr.App("shop", pages=3)
        users = clicks(app, lateness="2 minutes").group_by("user")
        windows = users.window(window, emit=emit, updatable=updatable)
        windows.agg(events=rr.count(), total=rr.sum("n")).to("counts")
        driver = Driver(app)
        for start in range(0, len(events), 50):
            send(driver, *events[start : start + 50])
            driver.batch()
        end(driver)
        found.append(Counter(str(line) for line in driver.outputs["counts"]))
    assert found[0] == found[1]


def test_events_of_a_later_run_are_on_time_unless_their_window_was_closed():
    app = rr.App("shop", pages=2)
    per_minute(app).to("counts")
    driver = Driver(app)
    send(driver, ("ann", 5), ("bob", 20))
    driver.close().assert_is("""
        window_start         | user | n
        2026-01-01T00:00:00Z | ann  | 1
        2026-01-01T00:00:00Z | bob  | 1
    """)
    [clock] = driver.last.clocks.values()
    assert clock == (START + 60) * 1_000_000
    send(driver, ("ann", 70), ("ann", 30), ("ann", 61))
    driver.close().of("counts").assert_is("""
        window_start         | user | n
        2026-01-01T00:01:00Z | ann  | 2
    """)
    assert sum(driver.status.late.values()) == 1
    assert driver.close() == []


def test_what_may_still_be_corrected_is_given_and_can_be_corrected_later():
    app = rr.App("shop", pages=2)
    per_minute(app, updatable="1 hour").to("counts")
    driver = Driver(app)
    send(driver, ("ann", 5))
    assert [line["value"]["n"] for line in driver.close()] == [1]
    send(driver, ("ann", 6))
    assert [(line["op"], line["value"]["n"]) for line in driver.close()] == [("-", 1), ("+", 2)]


def test_rows_without_a_partner_leave_and_rows_that_wait_for_a_table_meet_it():
    app = rr.App("shop", pages=2)
    views = clicks(app, "views").select("user")
    clicks(app).join(views, on="user", within="5 minutes", how="left").to("both")
    prices = app.table(
        "prices", schema="user string, price bigint, at timestamp", key="user", time="at"
    )
    sales = clicks(app, "sales").select("user")
    sales.join(prices, on="user", as_of="event time", how="left", prefix="p_").to("priced")
    driver = Driver(app)
    send(driver, ("ann", 5), ("bob", 6))
    send(driver, ("ann", 7), topic="views")
    send(driver, ("ann", 50), topic="sales")
    driver.send("prices", {"user": "ann", "price": 3, "at": at(10)}, key="ann")
    found = driver.close()
    both = [line["value"]["user"] for line in found if line["output"] == "both"]
    assert sorted(both) == ["ann", "bob"]
    assert [line["value"]["p_price"] for line in found if line["output"] == "priced"] == [3]


def test_steps_close_one_after_the_other_also_through_a_topic():
    """Were they closed at once, what the first one gives would come too late for the next."""
    app = rr.App("shop", pages=2)
    views = clicks(app, "views").select("user")
    alone = clicks(app).join(views, on="user", within="5 minutes", how="left").through("alone")
    alone.group_by("user").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("counts")
    driver = Driver(app)
    send(driver, ("ann", 5), ("ann", 6), ("ann", 500))
    driver.batch()
    driver.batch()
    driver.close()
    assert [line["value"]["n"] for line in driver.outputs["counts"]] == [2, 1]
    assert not sum(driver.status.late.values())


def test_an_absence_is_told_and_timers_ring():
    app = rr.App("shop", pages=2)
    clicks(app).match("""
        PARTITION BY user ORDER BY at MEASURES beat.at AS since
        PATTERN (beat TIMEOUT) WITHIN INTERVAL '10' MINUTE DEFINE beat AS n >= 0
    """).to("silent")
    clicks(app, "orders").process(Reminder(), by="user")["late"].to("reminders")
    driver = Driver(app)
    send(driver, ("ann", 5), ("bob", 20))
    send(driver, ("cid", 30), topic="orders")
    found = driver.close()
    assert [line["value"]["user"] for line in found if line["output"] == "silent"] == ["ann", "bob"]
    assert [line["value"]["user"] for line in found if line["output"] == "reminders"] == ["cid"]


def test_a_batch_that_closes_is_the_same_when_it_is_run_again():
    app = rr.App("shop", pages=2)
    clicks(app).group_by("user").window(rr.session("30 seconds")).agg(n=rr.count()).to("counts")
    driver = Driver(app)
    send(driver, ("ann", 5), ("bob", 20))
    driver.close()
    send(driver, ("ann", 100))
    driver.close()
    before = list(driver.outputs["counts"])
    driver.replay()
    assert driver.outputs["counts"] == before


PROGRAM = """
import riverrun as rr
app = rr.App("closing")
schema = "user string, click_id bigint, at timestamp"
clicks = app.stream("closing-clicks", schema=schema, time="at")
views = app.stream("closing-views", schema="user string, at timestamp", time="at").select("user")
alone = clicks.join(views, on="user", within="5 minutes", how="left").through("closing-alone")
alone.group_by("user").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("closing-counts")
later = clicks.with_time("at + INTERVAL 1 HOUR", name="later")
later.group_by("user").window(rr.tumbling("1 hour")).agg(n=rr.count()).to("closing-later")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_backfill_is_finished_on_kafka(broker, tmp_path, once):
    for name in ("clicks", "views"):
        admin.create_topic(broker, f"closing-{name}", partitions=2)
    seconds = {"ann": (5, 6, 500), "bob": (7, 59, 60)}
    rows = [
        {"user": user, "clickId": 1, "at": at(each)}
        for user, when in seconds.items()
        for each in when
    ]
    produce(broker, "closing-clicks", rows)
    program = tmp_path / "closing.py"
    program.write_text(PROGRAM)
    run = once(program, "--close")
    warning = "warning: closing-clicks: no record of the first batch has 'click_id'; did you mean"
    assert f"{warning} 'clickId'?\n" in run.error()
    found = [json.loads(value) for _, value in records(broker, "closing-counts")]
    assert sorted((each["user"], each["window_start"][14:16], each["n"]) for each in found) == [
        ("ann", "00", 2), ("ann", "08", 1), ("bob", "00", 2), ("bob", "01", 1),
    ]  # fmt: skip
    assert max(run.statuses()[-1]["clocks"].values()) == (START + 7200) * 1_000_000
    later = [json.loads(value) for _, value in records(broker, "closing-later")]
    assert sorted((each["user"], each["window_start"][11:16], each["n"]) for each in later) == [
        ("ann", "01:00", 3), ("bob", "01:00", 3),
    ]  # fmt: skip


def test_closing_goes_with_once(riverrun, tmp_path):
    outcome = riverrun("run", str(tmp_path / "app.py"), "--close")
    assert outcome.code == 2
    assert "--close goes with --once" in outcome.err
