"""Durations, and the clock that says how far event time has come."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.clock import Clock, Pace, PartitionTimes, ProducerTimes, Punctuation, clock
from riverrun.durations import BEGINNING, END, duration_text, microseconds, time_text
from riverrun.partitions import Partition, producer_text
from timed import PlainClock

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

    def __init__(self, by="partition"):
        self.times, self.now = PartitionTimes(), Clock(BEGINNING)
        self.by = by
        self.paces = {"t": Pace(0 if by == "tick" else 5 * S, 10 * S, by)}

    def batch(self, tick, behind=(), ended=False, **highs):
        """`p0=3` is event time 3 s of partition (or producer) 0. Returns the clock in seconds."""
        seen = {name[1:]: high * S for name, high in highs.items()}
        said = Punctuation(tick * S, ended, behind=[Partition("t", n) for n in behind])
        if self.by == "producer":
            said.producers = {"t": seen}
        else:
            said.highs = {Partition("t", int(name)): high for name, high in seen.items()}
        self.times.note(said)
        self.now = clock(self.times, said, self.paces, self.now.time)
        self.times.forget(said, self.paces)
        time = self.now.time
        return time if time in (BEGINNING, END) else time / S


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def producers():
    return Watch("producer")


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
    assert watch.times.seen[Partition("t", 0)] == (100 * S, 1 * S)


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
    watch.times.note(Punctuation(0, False, {Partition("other", 0): 1}, []))
    assert watch.batch(tick=0, p0=100) == 95


def test_what_tasks_say_of_time_is_joined():
    one, two = Partition("t", 0), Partition("t", 1)
    joined = Punctuation(1, False, {one: 5, two: 7}, [two])
    joined.add(Punctuation(2, True, {one: 9, two: 6}, [one, two]))
    assert joined == Punctuation(2, True, {one: 9, two: 7}, [one, two])
    assert Punctuation.decoded(joined.encoded()) == joined


@pytest.mark.parametrize("producer", ["0", "7", "a/b", "t/0", "a:b", "", "/", "é"])
def test_a_producer_may_be_called_like_a_partition(producer):
    name = producer_text("t", producer)
    assert name not in {str(Partition("t", number)) for number in range(10)}
    producers = ProducerTimes({producer: 5}, {producer: 7}, ahead=3)
    times = PartitionTimes({Partition("t", 17): (5, 7)}, {"a.b-c_d": producers})
    assert PartitionTimes.decoded(json.loads(json.dumps(times.encoded()))) == times


def test_the_slowest_producer_decides(producers):
    assert producers.batch(tick=0, p1=100, p2=60) == 55
    assert producers.now.held_by == "t:2"


def test_a_silent_producer_is_forgotten_and_no_longer_holds_time_back(producers):
    producers.batch(tick=0, p1=100, p2=60)
    assert producers.batch(tick=9, p1=130) == 55
    assert producers.batch(tick=10, p1=140) == 135
    assert producers.times.producers == {
        "t": ProducerTimes({"1": 140 * S}, {"1": 10 * S}, ahead=60 * S)
    }


def test_a_producer_that_returns_counts_again_and_the_clock_does_not_go_back(producers):
    producers.batch(tick=0, p1=100, p2=60)
    assert producers.batch(tick=10, p1=140) == 135
    assert producers.batch(tick=11, p1=160, p2=70) == 135
    assert producers.now.held_by == "t:2"
    assert producers.batch(tick=12, p1=161, p2=150) == 145


def test_no_producer_is_forgotten_while_a_partition_is_behind(producers):
    producers.batch(tick=0, p1=100, p2=60)
    assert producers.batch(tick=50, p1=140, behind=[3]) == 55
    assert producers.batch(tick=51, p1=141) == 136


def test_when_all_producers_are_forgotten_time_goes_on_with_the_tick(producers):
    producers.batch(tick=0, p1=100, p2=60)
    assert producers.batch(tick=10) == 105
    assert producers.times.producers == {"t": ProducerTimes(ahead=100 * S)}
    assert producers.batch(tick=30) == 125
    assert (producers.now.held_by, producers.now.idle) == (None, ())


def test_memory_of_producers_is_bounded(producers):
    for tick in range(0, 500, 5):
        producers.batch(tick=tick, **{f"p{tick + n}": tick for n in range(5)})
    assert len(producers.times.producers["t"].highs) <= 3 * 5


def test_marks_of_another_kind_are_forgotten(producers):
    producers.times.seen = {Partition("t", 0): (10 * S, 0)}
    assert producers.batch(tick=0, p1=100) == 95
    assert not producers.times.seen
    partitions = Watch()
    partitions.times = producers.times
    assert partitions.batch(tick=1, p0=110) == 105
    assert not producers.times.producers["t"].highs


def test_processing_time_is_the_tick():
    watch = Watch("tick")
    assert watch.batch(tick=100) == 100
    assert watch.batch(tick=101, p0=5) == 101
    assert watch.now.held_by == "processing time"


def test_the_clock_tells_who_holds_it_back_and_who_is_idle(watch):
    watch.batch(tick=0, p0=100, p1=60, p2=80)
    assert watch.now == Clock(55 * S, "t/1", ())
    watch.batch(tick=10, p0=100)
    assert watch.now == Clock(95 * S, "t/0", ("t/1", "t/2"))
    watch.batch(tick=30)
    assert watch.now == Clock(115 * S, None, ("t/0", "t/1", "t/2"))


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (BEGINNING, "nothing read yet"),
        (END, "the end of the input"),
        (1_767_268_800 * S, "2026-01-01T12:00:00Z"),
    ],
)
def test_a_clock_is_shown_as_a_time(time, text):
    assert time_text(time) == text


batches = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 60)),
        st.booleans(),
    ),
    max_size=12,
)


@given(batches)
def test_random_producers_give_the_clock_of_plain_python(batches):
    watch, plain, tick = Watch("producer"), PlainClock(lateness=5, idle=10), 0
    for passed, highs, behind in batches:
        tick += passed
        named = {f"p{name}": high for name, high in highs.items()}
        found = watch.batch(tick, behind=[0] * behind, **named)
        assert found == plain.batch(tick, highs, behind=behind)
        known = {name for times in watch.times.producers.values() for name in times.highs}
        assert known <= set(plain.active)
