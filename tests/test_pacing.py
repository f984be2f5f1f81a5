"""Back-pressure: batches grow and shrink to take the time that is wanted, by a clock by hand."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.kafka import admin
from riverrun.kafka.topics import KafkaTopics
from riverrun.sources.kafka import KafkaPlanner
from riverrun.sources.pacing import FIRST, LEAST, MOST_BYTES, UNWEIGHED, Pacer, Weights
from riverrun.sources.source import Circumstances
from running import Run, produce


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


def test_they_grow_by_four_times_at_most_up_to_the_most_allowed():
    machine = Machine((500_000, 5.0), rate=1_000_000)
    assert [machine.batch() for _ in range(5)] == [100_000, 400_000, 500_000, 500_000, 500_000]


def test_they_shrink_at_once_when_the_machine_is_slow():
    machine = Machine((500_000, 5.0), rate=2_000)
    assert machine.batch() == FIRST
    assert machine.batch() < 10_000


def test_they_never_become_so_small_that_nothing_gets_done():
    machine = Machine((500_000, 5.0), rate=1, overhead=0)
    for _ in range(5):
        machine.batch()
    assert machine.pacer.size == LEAST


def test_what_every_batch_costs_does_not_make_them_small():
    machine = Machine((500_000, 5.0), rate=20_000, overhead=15)
    for _ in range(12):
        machine.batch()
    assert machine.pacer.size >= 200_000, "half of the time is spent on records"


def test_they_come_back_to_the_wanted_time_when_the_machine_is_quick_again():
    machine = Machine((5_000_000, 5.0), rate=20_000, overhead=15)
    for _ in range(8):
        machine.batch()
    machine.overhead, machine.rate = 0.3, 50_000
    for _ in range(8):
        machine.batch()
    before = machine.at
    machine.batch()
    assert machine.at - before == pytest.approx(5.0, rel=0.25)


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


@pytest.mark.broker
def test_the_planner_reads_as_much_as_the_pacer_allows(broker, tmp_path):
    admin.create_topic(broker, "paced", partitions=2)
    produce(broker, "paced", [{"n": n} for n in range(10_000)], partitions=2)
    app = rr.App("paced")
    app.stream("paced", schema="n int").to("paced-out")
    at = [0.0]
    pacer = Pacer(2_000, 5.0, clock=lambda: at[0])
    job = Circumstances(app.program(), pacer, lambda: None, tmp_path)
    plan = KafkaPlanner(job, KafkaTopics(broker))
    offset, read = plan.first(), []
    for seconds in (10, 5, 1, 1, 1):  # how long each batch takes
        before, offset = offset, plan.next(offset)
        read.append(sum(offset.ends.values()) - sum(before.ends.values()))
        at[0] += seconds
    assert read == [2_000, 1_000, 1_000, 2_000, 2_000]


def test_a_time_that_cannot_be_read_is_one_clear_error_before_anything_starts(tmp_path, riverrun):
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    outcome = riverrun("run", str(file), "--batch-time", "soon")
    assert outcome.code == 2
    assert "a duration cannot be read" in outcome.err
    assert "where: --batch-time" in outcome.err


SLOW = """
import time
import riverrun as rr


class Slow(rr.Processor):
    outputs = {"out": "n int"}

    def on_event(self, event, state, context):
        time.sleep(0.001)
        context.emit("out", n=event.n)


app = rr.App("slow", pages=4)
numbers = app.stream("slow-numbers", schema="n int")
numbers.process(Slow, by="n").stream.to("slow-out")
"""


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
def test_a_job_that_is_slow_takes_less_at_once(broker, broker_settings, tmp_path):
    admin.create_topic(broker, "slow-numbers", partitions=1)
    produce(broker, "slow-numbers", [{"n": n} for n in range(9_000)])
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    options = ("--once", "--max-events", "6000", "--batch-time", "1 second")
    with Run(file, *options, home=broker_settings.home) as run:
        assert run.end() == 0, run.error()
        events = [status["events"] for status in run.statuses()]
    assert events[0] == 6_000
    assert len(events) > 2, "the other 3,000 do not fit a second"
    assert events[-1] == 9_000


def test_a_batch_has_as_many_records_as_fit_memory():
    weights = Weights()
    assert weights.bound(["views"]) == UNWEIGHED, "nobody knows how large they are"
    weights.note({"views": [1000, 100_000], "films": [10, 10 << 20]})
    assert weights.bound(["views"]) == MOST_BYTES // 100
    assert weights.bound(["views", "films"]) == 256, "they may all be the large ones"
    assert weights.bound(["views", "new"]) == UNWEIGHED
    weights.note({"films": [1, 2 * MOST_BYTES], "empty": [5, 0]})
    assert weights.bound(["films"]) == 1
    assert weights.bound(["empty"]) == MOST_BYTES
    assert weights.bound([]) == MOST_BYTES


@pytest.mark.broker
def test_a_table_is_loaded_in_full_batches_though_nothing_is_known_of_what_waits_for_it(
    broker, tmp_path
):
    for topic, count in (("heavy-users", 40_000), ("heavy-orders", 100)):
        admin.create_topic(broker, topic, partitions=1)
        produce(broker, topic, [{"id": n} for n in range(count)])
    app = rr.App("heavy")
    users = app.table("heavy-users", schema="id bigint", key="id")
    app.stream("heavy-orders", schema="id bigint").join(users, on="id").to("heavy-out")
    status: dict = {}
    job = Circumstances(app.program(), Pacer(100_000, None), lambda: status, tmp_path)
    plan = KafkaPlanner(job, KafkaTopics(broker))
    offset, read = plan.first(), []
    while True:
        before, offset = offset, plan.next(offset)
        if offset is before:
            break
        read.append([offset.ends[each] - before.ends[each] for each in sorted(offset.ends)])
        seen = {"heavy-users": [1000, 20_000]} | ({"heavy-orders": [9, 90]} if read[-1][0] else {})
        status.update(sizes=seen, highs={}, tick=offset.tick, clocks={}, open=False)
    assert [each[0] for each in read][-1] == 100, "orders come once the table is there"
    assert len(read) <= 3, f"{read}: of the table's records it is known how large they are"
