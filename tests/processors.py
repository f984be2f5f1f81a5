"""Processors that tests share, and what they ask of a driver."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import polars as pl

import riverrun as rr
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
