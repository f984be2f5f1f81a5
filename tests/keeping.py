"""Rows out of order for programs that keep them for some time, and a run of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st

from riverrun.testing import Driver
from test_join_oracle import balanced
from thorough import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATENESS, KEEP = 60, 100
SCHEMA = "k string, v bigint, gone boolean, at timestamp"

some = settings(deadline=None, max_examples=examples(10))
row = st.tuples(
    st.integers(0, 70),  # seconds on
    st.integers(0, LATENESS),  # and back: rows out of order, none of them late
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.sampled_from([False, False, True]),
)
batches = st.lists(st.lists(row, max_size=5), min_size=2, max_size=6)


def events(batches):
    """Batches of rows as (time, number, key, value, gone), and the clock after each."""
    front, number, last, made = 0, 0, 0, []
    for batch in batches:
        rows = []
        for on, back, key, value, gone in batch:
            front += on
            rows.append((max(front - back, 0), number, key, value, gone))
            number += 1
        last = max([last, *(row[0] for row in rows)])
        made.append((rows, last - LATENESS))
    return made


def sent(row):
    time, _, key, value, gone = row
    at = (NOON + timedelta(seconds=time)).isoformat()
    return {"k": key, "v": value, "gone": gone, "at": at}


def steps_of(app):
    return app.stream("rows", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")


def send(driver, rows):
    driver.send("rows", *map(sent, rows))


def run(app, batches, mishaps, check, send=send):
    """Sends the batches, and compares after each."""
    driver, so_far = Driver(app), []
    for (rows, clock), mishap in zip(events(batches), mishaps, strict=False):
        send(driver, rows)
        so_far += rows
        if mishap:
            getattr(driver, mishap)()
        balanced(driver.batch())
        check(driver, so_far, clock)
