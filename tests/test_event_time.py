"""Durations, and the clock that says how far event time has come."""

from __future__ import annotations

from datetime import timedelta

import pytest

from riverrun.event_time import (
    BEGINNING,
    END,
    Pace,
    PartitionTimes,
    Punctuation,
    clock,
    duration_text,
    microseconds,
)

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30 seconds", 30),
        ("1 second", 1),
        ("5 minutes", 300),
        ("5min", 300),
        ("1 hour 30 minutes", 5400),
        ("1 hour, 30 minutes", 5400),
        ("1.5 h", 5400),
        ("7 days", 604_800),
        ("2 WEEKS", 1_209_600),
        ("250 ms", 0.25),
        (timedelta(minutes=2), 120),
        ("0 seconds", 0),
    ],
)
def test_a_duration_is_text_or_a_timedelta(text, seconds):
    assert microseconds(text) == seconds * S


@pytest.mark.parametrize(
    "text", ["1 minute", "90 seconds", "1 week", "36 hours", "1 millisecond", "0 seconds"]
)
def test_a_duration_is_written_in_whole_units(text):
    assert duration_text(microseconds(text)) == text


class Watch:
    """A clock over topic `t` with lateness 5 s and idle 10 s, moved batch by batch."""

    def __init__(self):
        self.times, self.now = PartitionTimes(), BEGINNING
        self.paces = {"t": Pace(5 * S, 10 * S)}

    def batch(self, tick, behind=(), ended=False, **highs):
        """`p0=3` is event time 3 s in partition 0. Returns the clock in seconds."""
        seen = {f"t/{name[1:]}": high * S for name, high in highs.items()}
        said = Punctuation(tick * S, ended, seen, [f"t/{n}" for n in behind])
        self.times.note(said)
        self.now = clock(self.times, said, self.paces, self.now)
        return self.now if self.now in (BEGINNING, END) else self.now / S


@pytest.fixture
def watch():
    return Watch()


def test_the_clock_is_at_the_beginning_until_there_is_an_event(watch):
    assert watch.batch(tick=100) == BEGINNING


def test_the_slowest_partition_decides_minus_lateness(watch):
    assert watch.batch(tick=0, p0=100, p1=60) == 55


def test_the_clock_never_goes_back(watch):
    assert watch.batch(tick=0, p0=100) == 95
    assert watch.batch(tick=1, p1=20) == 95
    assert watch.batch(tick=2, p1=110) == 95
    assert watch.batch(tick=3, p0=120) == 105


def test_a_partition_counts_from_its_first_record_on(watch):
    assert watch.batch(tick=0, p0=100) == 95
    assert watch.batch(tick=1, p0=200, p1=150) == 145


def test_an_older_event_does_not_move_a_partition_back(watch):
    watch.batch(tick=0, p0=100)
    assert watch.batch(tick=1, p0=90) == 95
    assert watch.times.seen["t/0"] == (100 * S, 1 * S)


def test_an_idle_partition_does_not_hold_time_back(watch):
    assert watch.batch(tick=0, p0=100, p1=60) == 55
    assert watch.batch(tick=9, p0=130) == 55
    assert watch.batch(tick=10, p0=140) == 135


def test_a_partition_that_is_behind_is_not_idle(watch):
    watch.batch(tick=0, p0=100, p1=60)
    assert watch.batch(tick=50, p0=140, behind=[1]) == 55
    assert watch.batch(tick=51, p0=141) == 136


def test_when_all_are_idle_time_goes_on_with_the_tick(watch):
    assert watch.batch(tick=0, p0=100, p1=60) == 55
    assert watch.batch(tick=9) == 55
    assert watch.batch(tick=10) == 105
    assert watch.batch(tick=30) == 125


def test_a_record_after_silence_does_not_move_the_clock_back(watch):
    watch.batch(tick=0, p0=100)
    assert watch.batch(tick=60) == 155
    assert watch.batch(tick=61, p0=101) == 155


def test_the_end_of_the_input_is_after_every_event(watch):
    watch.batch(tick=0, p0=100)
    assert watch.batch(tick=0, ended=True) == END


def test_partitions_of_other_topics_do_not_count(watch):
    watch.times.note(Punctuation(0, False, {"other/0": 1}, []))
    assert watch.batch(tick=0, p0=100) == 95


def test_what_tasks_say_of_time_is_joined():
    joined = Punctuation(1, False, {"t/0": 5, "t/1": 7}, ["t/1"])
    joined.add(Punctuation(2, True, {"t/0": 9, "t/1": 6}, ["t/0", "t/1"]))
    assert joined == Punctuation(2, True, {"t/0": 9, "t/1": 7}, ["t/0", "t/1"])
