"""Processors: a program's own logic per key, with state and timers."""

from __future__ import annotations

import json
from pathlib import Path

import processors
import riverrun as rr
from processors import MINUTE, SCHEMA, Log, Silence, driver_of, kept_keys, waits
from riverrun.operators.process.keyed import KeyedRows
from riverrun.testing import Driver


def line_of(text: str) -> int:
    """The first line of processors.py that holds the text."""
    whole = Path(processors.__file__).read_text()
    return whole[: whole.index(text)].count("\n") + 1


def test_a_key_is_told_of_by_its_timer_which_events_move():
    driver = driver_of(Silence())
    out = driver.run(
        clicks="""
        at    | user
        12:00 | ann
        12:01 | bob
        12:05 | ann
        ------
        12:11 | cid
        ------
        12:15 | cid
        ------
        12:24 | cid
    """
    )
    out.assert_is("""
        user | since | clicks | key
        bob  | 12:01 | 1      | bob
        ann  | 12:05 | 2      | ann
    """)
    assert waits(driver)


def test_timers_fire_in_order_of_time_after_the_events_of_the_batch():
    driver_of(Log()).run(
        clicks="""
        at    | user | n
        12:00 | ann  | 1
        12:04 | ann  | 0
    """
    ).assert_is("""
        what  | time  | seen
        event | 12:00 | [1]
        a     | 12:01 | [1, 0]
        b     | 12:02 | [1, 0]
        event | 12:04 | [1, 0]
    """)


def test_a_timer_that_is_set_again_moves_and_a_cancelled_one_does_not_fire():
    driver_of(Log()).run(
        clicks="""
        at    | user | n
        12:00 | ann  | 1
        12:00 | ann  | 2
        12:00 | ann  | 3
        ------
        12:04 | bob  | 0
        ------
        12:05 | bob  | 0
    """
    ).assert_is("""
        user | what  | time
        ann  | event | 12:00
        ann  | event | 12:00
        ann  | event | 12:00
        bob  | event | 12:04
        ann  | a     | 12:05
        bob  | event | 12:05
    """)


def test_timers_set_in_the_past_or_by_a_timer_fire_in_the_same_batch():
    driver = driver_of(Log())
    driver.run(
        clicks="""
        at    | user | n
        12:00 | ann  | 4
        12:09 | bob  | 6
        12:20 | cid  | 0
    """
    ).assert_is("""
        user | what  | time
        ann  | past  | 11:59
        ann  | event | 12:00
        bob  | event | 12:09
        bob  | chain | 12:10
        bob  | chain | 12:11
        bob  | chain | 12:12
        bob  | chain | 12:13
        cid  | event | 12:20
    """)
    assert not waits(driver)


def test_a_timer_of_processing_time_fires_with_the_tick_and_keeps_batches_coming():
    driver = driver_of(Log(), now="2026-01-01T15:00:00Z")
    driver.run(clicks="at | user | n\n 12:00 | ann | 5")
    assert waits(driver)
    assert driver.pass_time("59 seconds") == []
    driver.restart()
    driver.pass_time("1 second").assert_is("""
        user | what | time
        ann  | wall | 15:01
    """)
    assert not waits(driver)
    assert driver.pass_time("1 hour") == []


def test_a_timer_that_renews_itself_does_so_ten_times_when_the_input_has_ended():
    class Heart(rr.Processor):
        outputs = {"beat": "user string"}

        def on_event(self, event, state, context):
            context.timer("beat", context.time + MINUTE)

        def on_timer(self, name, state, context):
            context.emit("beat", user=context.key["user"])
            context.timer("beat", context.time + MINUTE)

    driver = driver_of(Heart())
    assert len(driver.run(clicks="at | user\n 12:00 | a\n ---\n 12:03 | b")) == 3
    assert len(driver.end()) == 2 * 11


def test_the_context_tells_of_clock_tick_and_lateness():
    class Tell(rr.Processor):
        outputs = {"told": "user string, clock timestamp, now timestamp, late boolean, n bigint"}

        def on_event(self, event, state, context):
            told = {"clock": context.clock, "now": context.now, "late": context.late}
            context.emit("told", user=event["user"], n=len(event), **told)

    driver_of(Tell(), now="2026-01-01T15:00:00Z", lateness="1 minute").run(
        clicks="""
        at    | user
        12:05 | ann
        12:01 | ann
        ----
        12:03 | bob
        12:04 | bob
    """
    ).assert_is("""
        user | clock | now   | late  | n
        ann  |       | 15:00 | false | 3
        ann  |       | 15:00 | false | 3
        bob  | 12:04 | 15:00 | true  | 3
        bob  | 12:04 | 15:00 | false | 3
    """)


def test_an_event_that_fails_is_set_aside_and_changes_nothing():
    driver = driver_of(Log())
    out = driver.run(
        clicks="""
        at    | user | n
        12:00 | ann  | 0
        12:01 | ann  | 8
        12:02 | ann  | 7
        12:03 | ann  | 9
    """
    )
    out.of("log").assert_is("""
        what  | time  | seen
        event | 12:00 | [0]
        event | 12:03 | [0, 9]
    """)
    eight, timer = (f"(processors.py:{line_of(text)})" for text in ('"eight"', '("timer")'))
    cause = "TypeError: seen[] is 'seven', not BIGINT"
    out.of("dead").assert_is(f"""
        topic  | offset | step | cause
        clicks | 1      | step | ValueError: eight {eight}
        clicks | 2      | step | {cause}
               |        | step | KeyError: 'timer' {timer}
    """)
    value = {"user": "ann", "n": 8, "at": "2026-01-01T12:01:00Z"}
    assert json.loads(out.of("dead")[0]["value"]["row"]) == value
    assert driver.status.dead == 3
    driver.run(clicks="at | user | n\n 12:09 | ann | 0").of("log").assert_is("""
        seen
        [0, 9, 0]
    """)


class Wrong(rr.Processor):
    state = "n bigint, at timestamp"
    outputs = {"out": "user string, n int"}

    def on_event(self, event, state, context):
        match event.n:
            case 1:
                context.emit("nowhere", user="a")
            case 2:
                context.emit("out", user="a")
            case 3:
                context.emit("out", user="a", n=1, more=2)
            case 4:
                context.emit("out", user="a", n="four")
            case 5:
                context.emit("out", user="a", n=2**31)
            case 6:
                state.n = 0.5
            case 7:
                state.m = 1
            case 8:
                context.timer("x", context.time)
            case 9:
                context.emit("out", _at="now", user="a", n=1)
            case 10:
                print(event.nothing)


def test_what_does_not_fit_is_said_in_the_dead_letter():
    driver = driver_of(Wrong())
    for n in range(1, 11):
        driver.send("clicks", {"user": "a", "n": n, "at": "2026-01-01T12:00:00Z"})
    causes = [line["value"]["cause"].split(" (test_")[0] for line in driver.batch().of("dead")]
    assert causes == [
        "ValueError: there is no output 'nowhere'; there is out",
        "TypeError: output 'out': the column 'n' is missing",
        "TypeError: output 'out': there is no column 'more'; there is user, n",
        "TypeError: output 'out': n is 'four', not INTEGER",
        "TypeError: output 'out': n is 2147483648, not INTEGER",
        "TypeError: n is 0.5, not BIGINT",
        "AttributeError: 'State' object has no attribute 'm'",
        "TypeError: the processor has no on_timer",
        "TypeError: a time is a datetime, not 'now'",
        "AttributeError: the event has no column 'nothing'; it has user, n, at",
    ]


def test_keys_that_are_cleared_leave_no_state():
    driver = driver_of(Log(), pages=1)
    for start in range(0, 300, 100):
        for n in (0, 10):
            for user in range(start, start + 100):
                driver.send("clicks", {"user": str(user), "n": n, "at": "2026-01-01T12:00:00Z"})
            driver.batch()
            assert len(kept_keys(driver)) == (0 if n else 100)
    driver.send("clicks", {"user": "x", "n": 0, "at": "2026-01-01T12:00:00Z"})
    driver.send("clicks", {"user": "x", "n": 10, "at": "2026-01-01T12:00:00Z"})
    driver.batch()
    assert kept_keys(driver) == []
    assert not waits(driver)


def test_a_batch_loads_the_keys_it_touches(monkeypatch):
    loaded = []
    load = KeyedRows.load

    def spy(self, keys, columns):
        loaded.extend(keys["user"].to_list())
        return load(self, keys, columns)

    driver = driver_of(Silence(), pages=1)
    for n in range(1000):
        driver.send("clicks", {"user": str(n), "at": f"2026-01-01T12:{n % 50:02}:00Z"})
    driver.batch()
    monkeypatch.setattr(KeyedRows, "load", spy)
    driver.run(clicks="at | user\n 12:59 | x")
    assert len(loaded) == 200 + 1  # those of 12:40 to 12:49 were silent long enough
    assert loaded[0] == "x"


def test_null_is_a_key_and_keys_may_be_several():
    class Count(rr.Processor):
        state = "count bigint default 0"
        outputs = {"out": "user string, n bigint, count bigint"}

        def on_event(self, event, state, context):
            state.count += 1
            context.emit("out", **context.key, count=state.count)

    app = rr.App("p", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    clicks.process(Count, by=["user", "n"]).stream.to("out")
    Driver(app).run(
        clicks="""
        at    | user | n
        12:00 |      | 1
        12:01 |      | 1
        12:02 | ann  |
        ------
        12:03 |      | 1
        12:04 | ann  |
    """
    ).assert_is("""
        key                      | count
        {"user":null,"n":1}      | 1
        {"user":null,"n":1}      | 2
        {"user":"ann","n":null}  | 1
        {"user":null,"n":1}      | 3
        {"user":"ann","n":null}  | 2
    """)


def test_what_is_emitted_can_be_windowed_and_processed_again():
    app = rr.App("p", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    silent = clicks.process(Silence, by="user").stream
    hourly = silent.group_by("user").window(rr.tumbling("1 hour")).agg(n=rr.sum("clicks"))
    hourly.to("hourly")
    again = silent.select("user", n="clicks", at="since").process(Log, by="user")
    again["log"].where("what = 'event'").to("log")
    driver = Driver(app)
    lines = driver.run(
        clicks="""
        at    | user
        12:00 | ann
        12:30 | ann
        ------
        14:00 | ann
    """
    )
    lines.of("hourly").assert_is("""
        window_start | user | n
        12:00        | ann  | 2
    """)
    lines.of("log").assert_is("""
        time  | seen
        12:10 | [1]
        12:40 | [1, 1]
    """)
