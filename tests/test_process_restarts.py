"""Processors with random events: crashes and restarts at any batch, and a plain loop beside."""

from __future__ import annotations

from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from processors import MINUTE, NOON, Log, driver_of
from thorough import examples

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


@settings(deadline=None, max_examples=examples(8))
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


@settings(deadline=None, max_examples=examples(8))
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
