"""Processors over frames: the same as row by row, and as session windows."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from processors import MINUTE, NOON, SCHEMA, Silence, driver_of, kept_keys
from riverrun.testing import Driver
from thorough import examples


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


@settings(deadline=None, max_examples=examples(6))
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
    cause = out.of("dead")[0]["value"]["cause"]
    assert cause.startswith("ValueError: thirteen (test_process_frames.py")
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
