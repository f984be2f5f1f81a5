"""Back-pressure: batches grow and shrink to take the time that is wanted, by a clock by hand."""

from __future__ import annotations

import pytest

from riverrun.connectors.pacing import FIRST, LEAST, Pacer


class Machine:
    """Takes so many records per second, and some time for every batch."""

    def __init__(self, pacer_options, *, rate, overhead=0.3):
        self.at, self.rate, self.overhead = 0.0, rate, overhead
        self.pacer = Pacer(*pacer_options, clock=lambda: self.at)

    def batch(self, waiting=10**9):
        records = min(self.pacer.size, waiting)
        self.pacer.begin(records)
        self.at += self.overhead + records / self.rate
        self.pacer.end()
        return records


def test_batches_come_to_take_the_wanted_time():
    machine = Machine((5_000_000, 5.0), rate=50_000)
    for _ in range(10):
        machine.batch()
    before = machine.at
    machine.batch()
    assert machine.at - before == pytest.approx(5.0, rel=0.25)


def test_they_grow_by_twice_at_most_up_to_the_most_allowed():
    machine = Machine((500_000, 5.0), rate=1_000_000)
    assert [machine.batch() for _ in range(5)] == [100_000, 200_000, 400_000, 500_000, 500_000]


def test_they_shrink_at_once_when_the_machine_is_slow():
    machine = Machine((500_000, 5.0), rate=2_000)
    assert machine.batch() == FIRST
    assert machine.batch() < 10_000


def test_they_never_become_so_small_that_nothing_gets_done():
    machine = Machine((500_000, 5.0), rate=1, overhead=0)
    for _ in range(5):
        machine.batch()
    assert machine.pacer.size == LEAST


def test_a_slow_batch_of_few_records_says_nothing_of_large_ones():
    machine = Machine((500_000, 5.0), rate=100_000, overhead=60)
    machine.batch(waiting=10)
    assert machine.pacer.size == FIRST


def test_batches_that_are_not_full_do_not_make_the_size_grow():
    machine = Machine((500_000, 5.0), rate=100_000)
    for _ in range(5):
        machine.batch(waiting=1_000)
    assert machine.pacer.size == FIRST


def test_around_the_wanted_time_the_size_rests():
    machine = Machine((500_000, 5.0), rate=21_000)
    sizes = {machine.batch() for _ in range(5)}
    assert sizes == {FIRST}


def test_without_a_wanted_time_batches_are_as_large_as_they_may_be():
    machine = Machine((500_000, None), rate=1_000)
    assert [machine.batch() for _ in range(3)] == [500_000] * 3


def test_no_batch_no_lesson():
    pacer = Pacer(500_000, 5.0)
    pacer.end()
    assert pacer.size == FIRST
