"""Processors: a program's own logic per key, with state and timers."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.kernels.keyed import KeyedRows
from riverrun.plan import describe
from riverrun.runtime import checkpoint
from riverrun.spark.portable import portable
from riverrun.testing import Driver

MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 1, 1, 12)
SCHEMA = "user string, n bigint, at timestamp"


def driver_of(processor, *, pages=2, lateness="0 seconds", outputs=None, **options):
    app = rr.App("p", pages=pages)
    clicks = app.stream("clicks", schema=SCHEMA, time="at", lateness=lateness)
    made = clicks.process(processor, by="user", name="step")
    for name in outputs or made.outputs:
        made[name].to(name)
    return Driver(app, **options)


def kept_keys(driver: Driver) -> list[str]:
    """The keys of all rows in state, as they are stored."""
    found = []
    for place, head in driver.checkpoint.heads.items():
        for name, ids in json.loads(head)["segments"].get("step", {}).items():
            for each in ids if not name else ():
                data = driver.checkpoint.stores[place].get(each)
                found += pl.read_ipc_stream(data)["user"].to_list()
    return sorted(found)


def waits(driver: Driver) -> bool:
    """Whether batches are to happen though nothing arrives."""
    heads = [json.loads(head) for head in driver.checkpoint.heads.values()]
    return any(head["open"].get("step", False) for head in heads)


def line_of(text: str) -> int:
    """The first line of this file that holds the text."""
    whole = Path(__file__).read_text()
    return whole[: whole.index(text)].count("\n") + 1


class Silence(rr.Processor):
    """Tells when a user has been silent for ten minutes."""

    state = "clicks bigint default 0, last timestamp"
    outputs = {"silent": "user string, since timestamp, clicks bigint"}

    def on_event(self, event, state, context):
        if state.last is not None and context.time - state.last >= 10 * MINUTE:
            self.tell(state, context)
        state.clicks += 1
        state.last = max(state.last or context.time, context.time)
        context.timer("silence", state.last + 10 * MINUTE)

    def on_timer(self, name, state, context):
        self.tell(state, context)

    def tell(self, state, context):
        at = state.last + 10 * MINUTE
        user = context.key["user"]
        context.emit("silent", _at=at, user=user, since=state.last, clicks=state.clicks)
        state.clear()


class Log(rr.Processor):
    """Does what an event's number says, and tells of all that happens."""

    state = "seen bigint[] default []"
    outputs = {"log": "user string, what string, time timestamp, seen bigint[]"}

    def on_event(self, event, state, context):
        state.seen.append(event.n)
        self.tell("event", state, context)
        match event.n:
            case 1:
                context.timer("b", context.time + 2 * MINUTE)
                context.timer("a", context.time + MINUTE)
            case 2:
                context.timer("a", context.time + 5 * MINUTE)
            case 3:
                context.cancel("b")
                context.cancel("no such timer")
            case 4:
                context.timer("past", context.time - MINUTE)
            case 5:
                context.timer("wall", context.now + MINUTE, clock="processing")
            case 6:
                context.timer("chain", context.time + MINUTE)
            case 7:
                state.seen.append("seven")
            case 8:
                raise ValueError("eight")
            case 9:
                context.timer("broken", context.time)
            case 10:
                state.clear()

    def on_timer(self, name, state, context):
        self.tell(name, state, context)
        if name == "chain" and len(state.seen) < 4:
            state.seen.append(0)
            context.timer("chain", context.time + MINUTE)
        if name == "broken":
            state.seen.append(1)
            raise KeyError("timer")

    def tell(self, what, state, context):
        user = context.key["user"]
        context.emit("log", user=user, what=what, time=context.time, seen=state.seen)


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
    eight, timer = (f"(test_process.py:{line_of(text)})" for text in ('"eight"', '("timer")'))
    cause = "TypeError: seen is [0, 7, 'seven'], not BIGINT[]"
    out.of("dead").assert_is(f"""
        topic  | offset | step | timestamp | key | cause
        clicks | 1      | step | 12:01     | ann | ValueError: eight {eight}
        clicks | 2      | step | 12:02     | ann | {cause}
               |        | step | 12:03     | ann | KeyError: 'timer' {timer}
    """)
    value = {"user": "ann", "n": 8, "at": "2026-01-01T12:01:00Z"}
    assert json.loads(out.of("dead")[0]["value"]["value"]) == value
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


def refused(processor, **options):
    stream = rr.App("p").stream("clicks", schema=SCHEMA, time="at")
    with pytest.raises(rr.ProgramError) as error:
        stream.process(processor, **{"by": "user", **options})
    assert "test_process.py" in str(error.value.where)
    return error.value.fact


def test_mistakes_are_found_when_the_program_is_built():
    def made(**parts):
        return type("Made", (rr.Processor,), parts)

    def on_event(self, event, state, context): ...

    good = {"outputs": {"out": "n int"}, "on_event": on_event}
    assert refused(made(**good), by="usr") == "there is no column 'usr'"
    assert refused(made(**good), by=[]) == "process needs at least one column"
    assert refused(print) == "process() needs a processor"
    assert refused(made(outputs=good["outputs"])) == "Made has no on_event"
    wrong = {**good, "on_event": lambda self, event: None}
    assert refused(made(**wrong)) == "on_event does not take what it is given"
    assert refused(made(on_event=on_event)) == "Made has no outputs"
    assert refused(made(**{**good, "outputs": {"o": "n nothing"}})) == "the schema cannot be read"
    assert refused(made(**good, state="n")) == "the schema cannot be read"
    assert refused(made(**good, state="clear int")) == "state cannot have a column 'clear'"
    assert refused(made(**good, state="user string")) == "state cannot have a column 'user'"
    needs = made(**good, __init__=lambda self, period: None)
    assert refused(needs) == "Made cannot be made without arguments"
    stream = rr.App("p").stream("clicks", schema=SCHEMA, time="at")
    two = stream.process(made(**{**good, "outputs": {"a": "n int", "b": "n int"}}), by="user")
    assert two.outputs == ("a", "b")
    with pytest.raises(rr.ProgramError, match="there is no output 'c'"):
        two["c"]
    with pytest.raises(rr.ProgramError, match="more than one output"):
        print(two.stream)


def test_a_description_names_the_class_its_state_and_outputs(tmp_path):
    app = rr.App("p")
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    clicks.process(Silence, by="user").stream.to("silent")
    text = describe.as_text(describe.topology("p", 1, tuple(app.outputs)), tmp_path)
    assert "step clicks_silence_by_user" in text
    assert "  runs      Silence\n  state     clicks BIGINT, last TIMESTAMP\n" in text
    assert "  silent    user VARCHAR, since TIMESTAMP, clicks BIGINT\n" in text


def test_a_checkpoint_is_refused_when_state_or_outputs_change():
    shape = checkpoint.shape(driver_of(Silence()).program)["steps"]["step"]
    assert shape["keys"] == ["user"]
    assert shape["state"] == '"clicks" BIGINT, "last" TIMESTAMP'
    assert list(shape["outputs"]) == ["silent"]


class FrameSilence(rr.FrameProcessor):
    """The same as `Silence`, for events in order of time."""

    state = "clicks bigint default 0, last timestamp, timer timestamp"
    outputs = Silence.outputs

    def on_frame(self, events, state, context):
        kept = state.select("user", "last", "clicks").filter(pl.col("last").is_not_null())
        kept = kept.select("user", __at="last", clicks="clicks")
        rows = events.select("user", "__at", pl.lit(1).cast(pl.Int64).alias("clicks"))
        rows = pl.concat([kept, rows]).sort("user", "__at", maintain_order=True)
        gap = pl.col("__at") - pl.col("__at").shift().over("user") >= 10 * MINUTE
        visits = rows.with_columns(visit=gap.fill_null(False).cum_sum().over("user"))
        visits = visits.group_by("user", "visit").agg(
            since=pl.col("__at").max(), clicks=pl.col("clicks").sum()
        )
        last = pl.col("visit") == pl.col("visit").max().over("user")
        state = visits.filter(last).select(
            "user", "clicks", last="since", timer=pl.col("since") + 10 * MINUTE
        )
        return {"silent": self.told(visits.filter(~last)), "state": state}

    def on_timers(self, state, context):
        told = self.told(state.select("user", "clicks", since="last"))
        return {"silent": told, "state": state.clear()}

    def told(self, visits):
        return visits.select("user", "since", "clicks", __at=pl.col("since") + 10 * MINUTE)


ordered_batches = st.lists(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from("abc")), max_size=6), max_size=6
)
"""Seconds since the event before, and the user."""


def in_order(drawn):
    at = NOON
    for batch in drawn:
        events = []
        for step, user in batch:
            at += timedelta(seconds=step * 4)
            events.append({"user": user, "n": 0, "at": at.isoformat() + "Z"})
        yield events


def lines_of(driver, batches, output="silent"):
    found = []
    for events in batches:
        driver.send("clicks", *events)
        found += driver.batch()
    found += driver.end()
    return sorted(tuple(line["value"].values()) for line in found if line["output"] == output)


@settings(deadline=None, max_examples=12)
@given(drawn=ordered_batches)
def test_rows_frames_and_session_windows_tell_the_same(drawn):
    app = rr.App("p", pages=2)
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    sessions = clicks.group_by("user").window(rr.session("10 minutes"), emit="final")
    table = sessions.agg(since=rr.max("at"), clicks=rr.count())
    table.select("user", "since", "clicks", "window_start").to("silent")
    wanted = [line[:3] for line in lines_of(Driver(app), in_order(drawn))]
    assert lines_of(driver_of(Silence()), in_order(drawn)) == wanted
    assert lines_of(driver_of(FrameSilence()), in_order(drawn)) == wanted


def test_a_frame_that_fails_is_tried_in_halves_down_to_the_event():
    class Sums(rr.FrameProcessor):
        state = "total bigint default 0"
        outputs = {"sums": "user string, total bigint"}

        def on_frame(self, events, state, context):
            if (events["n"] == 13).any():
                raise ValueError("thirteen")
            added = events.group_by("user").agg(pl.col("n").sum(), pl.col("__at").max())
            new = state.join(added, on="user").with_columns(total=pl.col("total") + pl.col("n"))
            return {
                "sums": new.select("user", "total", "__at"),
                "state": new.filter(pl.col("total") > 0).select("user", "total"),
            }

    driver = driver_of(Sums(), pages=1)
    out = driver.run(
        clicks="""
        at    | user | n
        12:00 | ann  | 1
        12:01 | bob  | 13
        12:02 | bob  | 2
        12:03 | ann  | 3
        12:04 | cid  | 0
    """
    )
    out.of("sums").assert_is("""
        user | total
        bob  | 2
        ann  | 4
        cid  | 0
    """)
    assert [line["value"]["offset"] for line in out.of("dead")] == [1]
    assert out.of("dead")[0]["value"]["cause"].startswith("ValueError: thirteen (test_process.py")
    assert kept_keys(driver) == ["ann", "bob"]


def test_wrong_frames_are_said_in_the_dead_letter():
    class Bad(rr.FrameProcessor):
        state = "total bigint"
        outputs = {"out": "user string, n bigint"}

        def on_frame(self, events, state, context):
            return {
                0: {"out": events.select("user", "n")},
                1: {"out": events.select("user", "__at")},
                2: {"out": events.select("__at", user="user", n=pl.lit("two"))},
                3: {"none": events},
                4: {"state": state.with_columns(user=pl.lit("other"))},
                5: {"state": pl.concat([state, state])},
                6: None,
            }[events["n"][0]]

    driver = driver_of(Bad())
    for n in range(7):
        driver.send("clicks", {"user": str(n), "n": n, "at": f"2026-01-01T12:{n:02}:00Z"})
    out = driver.batch()
    causes = [line["value"]["cause"].splitlines()[0] for line in out.of("dead")]
    assert causes[:2] == [
        "TypeError: output 'out' needs the column '__at': the time of each row",
        "TypeError: output 'out' needs the column 'n'",
    ]
    assert causes[2].startswith("InvalidOperationError: conversion from `str` to `i64` failed")
    assert causes[3:] == [
        "ValueError: there is no output 'none'; there is out, and 'state'",
        "ValueError: state has a key that was not given",
        "ValueError: state has a key twice",
        "TypeError: frames by name are to be returned, not None",
    ]


clicks_drawn = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(0, 12), st.sampled_from("ab"), st.integers(0, 10)), max_size=6
        ),
        st.sampled_from([0, 30, 90]),
    ),
    min_size=1,
    max_size=6,
)
"""Minutes after noon, user and what to do; and seconds of wall clock before the batch."""
mishaps = st.lists(st.sampled_from(["", "crash", "restart"]), min_size=6, max_size=6)


def run(drawn, mishaps=("",) * 6, pages=2):
    driver, found = driver_of(Log(), pages=pages), []
    for (batch, seconds), mishap in zip(drawn, mishaps, strict=False):
        driver.tick += seconds * 1_000_000
        for minute, user, n in batch:
            at = (NOON + minute * MINUTE).isoformat() + "Z"
            driver.send("clicks", {"user": user, "n": n, "at": at})
        if mishap:
            getattr(driver, mishap)()
        found += driver.batch()
    return driver, [*found, *driver.end()]


@settings(deadline=None, max_examples=15)
@given(drawn=clicks_drawn, mishaps=mishaps)
def test_crashes_restarts_replays_and_the_number_of_pages_change_no_line(drawn, mishaps):
    _, lines = run(drawn)
    disturbed, found = run(drawn, mishaps)
    assert found == lines
    assert disturbed.replay() == lines
    assert run(drawn, pages=1)[1] == lines


class Plain:
    """State, context and timers of one key, in plain Python."""

    def __init__(self, user, told):
        self.key, self.told = {"user": user}, told
        self.seen, self.timers = [], {}
        self.now = datetime(1970, 1, 1)

    def clear(self):
        self.seen = []

    def emit(self, output, user, what, time, seen):
        self.told.append((time.isoformat() + "Z", user, what, list(seen)))

    def timer(self, name, at, clock="event"):
        self.timers[name] = (at, clock)

    def cancel(self, name):
        self.timers.pop(name, None)

    def fire(self, clock):
        while due := [
            (at, n) for n, (at, c) in self.timers.items() if c == "event" and at <= clock
        ]:
            self.time, name = min(due)
            self.cancel(name)
            Log().on_timer(name, self, self)


class Click:
    def __init__(self, n):
        self.n = n


@settings(deadline=None, max_examples=15)
@given(drawn=clicks_drawn)
def test_handlers_are_called_as_a_plain_loop_would(drawn):
    failing = (7, 8, 9)
    drawn = [([each for each in batch if each[2] not in failing], 0) for batch, _ in drawn]
    told, clock = [], NOON - 60 * MINUTE
    users = {user: Plain(user, told) for user in "ab"}
    for batch, _ in drawn:
        for minute, user, n in sorted(batch, key=lambda each: each[0]):
            users[user].time = NOON + minute * MINUTE
            clock = max(clock, users[user].time)
            Log().on_event(Click(n), users[user], users[user])
        for user in users.values():
            user.fire(clock)
    for user in users.values():
        user.fire(datetime.max)
    found = [line["value"] for line in run(drawn)[1] if line["output"] == "log"]
    assert sorted((v["time"], v["user"], v["what"], v["seen"]) for v in found) == sorted(told)


PROGRAM = """
import riverrun as rr
from beside import LIMIT

class Count(rr.Processor):
    state = "n bigint default 0"
    outputs = {"out": "n bigint"}
    def on_event(self, event, state, context):
        state.n += LIMIT
"""


def test_a_processor_travels_with_the_code_of_its_program(tmp_path, monkeypatch):
    (tmp_path / "traveller.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("LIMIT = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import traveller  # noqa: PLC0415

    data = portable(traveller.Count(), driver_of(traveller.Count()).program)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).on_event.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, cwd="/", capture_output=True, check=True
    )
    assert done.stdout == b"on_event\n"
