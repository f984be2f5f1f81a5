"""Kafka as a source, without Spark: where reading starts, what transactions hide, what is gone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import OFFSET_INVALID, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import riverrun as rr
from riverrun.embedded import kafka, ports
from riverrun.errors import RecordsGone, RiverrunError
from riverrun.kafka import admin, ranges
from riverrun.kafka.first_at import first_at
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.letters import RecordPlace
from riverrun.partitions import Partition, Range
from riverrun.sources.admission import share
from riverrun.sources.kafka import KafkaPlanner, KafkaSource
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, tasks
from riverrun.sources.source import Circumstances
from running import produce

pytestmark = pytest.mark.broker


def planner(broker, topic, *, start="earliest", on_loss="stop", max_events=1000, status=None):
    app = rr.App("planned")
    stream = app.stream(topic, schema="n int", start=start, on_loss=on_loss)
    stream.group_by("n").window(rr.tumbling("1 minute")).agg(c=rr.count()).to("out")
    job = Circumstances(app.program(), Pacer(max_events, None), lambda: status, Path())
    return KafkaPlanner(job, KafkaTopics(broker))


def send(broker, topic, values, *, timestamps=None):
    producer = Producer(broker)
    for number, value in enumerate(values):
        extra = {"timestamp": timestamps[number]} if timestamps else {}
        producer.produce(topic, value, partition=0, **extra)
    assert producer.flush(10) == 0


def read(broker, topic, start, end):
    lots = KafkaSource(broker).lots([Range(Partition(topic, 0), start, end)], frozenset())
    return [value.decode() for lot in lots for value in lot.records["__value"].to_pylist()]


def test_a_new_application_starts_where_the_program_says(broker):
    admin.create_topic(broker, "starts", partitions=1)
    send(broker, "starts", ["0", "1", "2"], timestamps=[1_000, 2_000, 3_000])
    assert planner(broker, "starts").first().ends == {Partition("starts", 0): 0}
    assert planner(broker, "starts", start="latest").first().ends == {Partition("starts", 0): 3}
    assert planner(broker, "starts", start="1970-01-01T00:00:02Z").first().ends == {
        Partition("starts", 0): 1
    }
    assert planner(broker, "starts", start="1970-01-01T00:01:00Z").first().ends == {
        Partition("starts", 0): 3
    }


def test_a_batch_holds_no_more_than_it_may_and_says_who_is_behind(broker):
    admin.create_topic(broker, "admitted", partitions=1)
    send(broker, "admitted", [str(n) for n in range(25)])
    plan = planner(broker, "admitted", max_events=10)
    first = plan.next(plan.first())
    second = plan.next(first)
    third = plan.next(second)
    ends = [each.ends[Partition("admitted", 0)] for each in (first, second, third)]
    assert ends == [10, 20, 25]
    assert [each.behind for each in (first, second, third)] == [
        [Partition("admitted", 0)],
        [Partition("admitted", 0)],
        [],
    ]
    assert plan.next(third) == third


def test_time_passes_without_records_only_while_windows_are_open(broker):
    admin.create_topic(broker, "quiet", partitions=1)
    still = planner(broker, "quiet", status={"clocks": {}, "highs": {}, "open": False})
    assert still.next(still.first()).batch == 0
    waiting = planner(broker, "quiet", status={"clocks": {}, "highs": {}, "open": True})
    start = waiting.first()
    ticked = waiting.next(start)
    assert ticked.batch == 1
    assert ticked.tick > start.tick
    assert waiting.next(ticked) == ticked


def test_after_a_restart_one_batch_tells_whether_anything_waits_for_time(broker):
    admin.create_topic(broker, "resumed", partitions=1)
    new = planner(broker, "resumed")
    first = new.first()
    assert new.next(first) == first
    assert new.next(replace(first, tick=1)).batch == 1
    known = planner(broker, "resumed", status={"clocks": {}, "highs": {}, "open": False})
    assert known.next(replace(first, tick=1)).batch == 0


def test_the_first_record_of_a_time_is_a_committed_one_of_that_time(broker):
    """Of marks of commits a broker has the time at which they were written: now."""
    admin.create_topic(broker, "old-times", partitions=1)
    producer = Producer({**broker, "transactional.id": "test-old-times"})
    producer.init_transactions()
    for second, ending in ((1, "commit"), (5, "abort"), (2, "commit"), (3, "commit")):
        producer.begin_transaction()
        producer.produce("old-times", "x", partition=0, timestamp=second * 1_000)
        producer.flush()
        producer.commit_transaction() if ending == "commit" else producer.abort_transaction()
    partition, topics = Partition("old-times", 0), KafkaTopics(broker)
    assert topics.at_time([partition], 3_000) == {partition: 1}  # the mark of the first commit
    assert first_at(topics, [partition], 3_000) == {partition: 6}
    assert first_at(topics, [partition], 4_000) == topics.ends([partition])
    for before in (-1, -2, -86_400_000):  # the first two mean something else to a broker
        assert first_at(topics, [partition], before) == {partition: 0}


def test_a_time_of_records_that_are_deleted_begins_with_the_first_that_is_left(broker):
    """Their file is still there: the broker says that it knows no record of that time."""
    files = {"segment.bytes": "1048576", "retention.ms": "-1"}
    admin.create_topic(broker, "cut-times", partitions=1, config=files)
    producer = Producer(broker)
    for second in range(3_000):
        producer.produce("cut-times", "x" * 600, partition=0, timestamp=(second + 1) * 1_000)
    producer.flush()
    client = AdminClient(broker)
    [deleted] = client.delete_records([TopicPartition("cut-times", 0, 2_500)]).values()
    deleted.result()
    partition, topics = Partition("cut-times", 0), KafkaTopics(broker)
    assert first_at(topics, [partition], 1_000) == {partition: 2_500}
    assert first_at(topics, [partition], 2_701_000) == {partition: 2_700}
    assert first_at(topics, [partition], 3_001_000) == {partition: 3_000}


def test_only_committed_records_are_read_and_control_records_do_not_stop_a_range(broker):
    admin.create_topic(broker, "transactions", partitions=1)
    producer = Producer({**broker, "transactional.id": "test-transactions"})
    producer.init_transactions()
    for values, ending in ((["a", "b"], "commit"), (["lost"], "abort"), (["c"], "commit")):
        producer.begin_transaction()
        for value in values:
            producer.produce("transactions", value, partition=0)
        producer.flush(10)
        producer.commit_transaction() if ending == "commit" else producer.abort_transaction()
    end = 7  # four records, and a control record for each of three transactions
    while KafkaTopics(broker).ends([Partition("transactions", 0)]) != {
        Partition("transactions", 0): end
    }:
        time.sleep(0.1)
    assert read(broker, "transactions", 0, end) == ["a", "b", "c"]
    assert read(broker, "transactions", 1, 5) == ["b"]


def test_an_open_transaction_is_not_planned_for(broker):
    admin.create_topic(broker, "unfinished", partitions=1)
    send(broker, "unfinished", ["before"])
    producer = Producer({**broker, "transactional.id": "test-unfinished"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("unfinished", "pending", partition=0)
    producer.flush(10)
    assert KafkaTopics(broker).ends([Partition("unfinished", 0)]) == {Partition("unfinished", 0): 1}
    producer.abort_transaction()


def test_records_that_retention_deleted_are_an_error_with_a_choice(broker):
    admin.create_topic(broker, "expired", partitions=1)
    send(broker, "expired", ["0", "1", "2", "3"])
    plan = planner(broker, "expired")
    start = plan.first()
    client = AdminClient(broker)
    for each in client.delete_records([TopicPartition("expired", 0, 2)]).values():
        each.result()
    with pytest.raises(RecordsGone, match="records that were still to be read are gone"):
        plan.next(start)
    skipping = planner(broker, "expired", on_loss="skip")
    batch = skipping.next(start)
    assert batch.ends == {Partition("expired", 0): 4}
    [ranges] = tasks(start, batch)
    partition, start, end = ranges[0]
    assert read(broker, partition.topic, start, end) == ["2", "3"]


def test_a_starting_position_that_cannot_be_read_is_an_error_where_it_is_written():
    app = rr.App("positions")
    with pytest.raises(RiverrunError, match="a starting position cannot be read") as caught:
        app.stream("t", schema="n int", start="yesterday")
    assert "test_kafka_source.py" in str(caught.value.where)


def test_every_partition_gives_its_share_of_a_batch():
    begin = {Partition("a", 0): 0, Partition("b", 0): 100, Partition("b", 1): 7}
    ends = {Partition("a", 0): 1000, Partition("b", 0): 200, Partition("b", 1): 7}
    assert share(begin, ends, 2000) == ends
    assert share(begin, ends, 110) == {
        Partition("a", 0): 100,
        Partition("b", 0): 110,
        Partition("b", 1): 7,
    }


def test_a_range_is_dealt_to_all_tasks_and_cut_only_at_fixed_offsets():
    start, end = Offset({Partition("a", 0): 10}), Offset({Partition("a", 0): 200_000}, parallel=2)
    dealt = tasks(start, end)
    assert dealt == [[(Partition("a", 0), 10, 131_072)], [(Partition("a", 0), 131_072, 200_000)]]
    assert tasks(end, end) == [[]]


def test_keys_headers_and_timestamps_come_with_the_records(broker):
    admin.create_topic(broker, "marked", partitions=1)
    producer = Producer(broker)
    headers = [("source", b"old"), ("source", b"web"), ("empty", None)]
    producer.produce("marked", "{}", "k", 0, timestamp=5_000, headers=headers)
    assert producer.flush(10) == 0
    [lot] = KafkaSource(broker).lots([Range(Partition("marked", 0), 0, 1)], frozenset({"marked"}))
    [record] = lot.records.to_pylist()
    assert record["__key"] == b"k"
    assert record["__timestamp"] == 5_000
    assert record["__headers"] == [("source", "web"), ("empty", None)]


def test_originals_that_are_far_apart_in_one_partition_are_all_found(broker):
    admin.create_topic(broker, "far-apart")
    produce(broker, "far-apart", [f"record {number}" for number in range(5000)])
    places = [RecordPlace("far-apart", 0, offset) for offset in (3, 4, 2500, 4999)]
    found = KafkaSource(broker).originals(places)
    assert {place.offset: original.value for place, original in found.items()} == {
        offset: f"record {offset}".encode() for offset in (3, 4, 2500, 4999)
    }


def test_a_job_that_runs_waits_for_a_broker_that_is_restarted(settings):
    """A client that outlives the restart is refused for ever: it knows the leaders of before."""
    port = ports.any_free()
    kafka.up(settings, port=port)
    client = kafka.client(settings)
    admin.create_topic(client, "restarted", partitions=2)
    topics = KafkaTopics(client, patience=60)
    assert topics.ends([Partition("restarted", 0), Partition("restarted", 1)]) == {
        Partition("restarted", 0): 0,
        Partition("restarted", 1): 0,
    }
    broker = psutil.Process(kafka.status(settings).pid)
    broker.kill()
    broker.wait(30)
    again = threading.Timer(1, kafka.up, [settings], {"port": port})
    again.start()
    assert topics.ends([Partition("restarted", 0)]) == {Partition("restarted", 0): 0}
    assert topics.facts(["restarted"])["restarted"].partitions == 2
    again.join()


def test_a_lot_of_large_records_is_cut_and_cut_the_same_again(broker, monkeypatch):
    admin.create_topic(broker, "heavy", partitions=2)
    values = [f"{number:03d}" + "x" * (number % 7 * 1000) for number in range(400)]
    produce(broker, "heavy", values, partitions=2)
    monkeypatch.setattr(ranges, "MOST_BYTES", 100_000)
    monkeypatch.setattr(ranges, "PIECE_BYTES", 30_000)
    wanted = [Range(Partition("heavy", number), 0, 200) for number in range(2)]

    def lots():
        found = KafkaSource(broker).lots(wanted, frozenset())
        return [lot.records["__value"].to_pylist() for lot in found]

    once = lots()
    assert len(once) > 30
    assert all(sum(map(len, lot)) < 40_000 for lot in once)
    ordered = [value.encode() for value in values[0::2] + values[1::2]]
    assert [value for lot in once for value in lot] == ordered
    assert lots() == once


def test_an_answer_without_an_offset_is_asked_for_again(broker, monkeypatch):
    """Seen of a broker that had just come back: no error, and -1001 for an end."""
    admin.create_topic(broker, "asked-again", partitions=1)
    real, answers = admin.list_offsets, []

    def without_an_offset_at_first(*given, **options):
        found = real(*given, **options)
        answers.append(found)
        return dict.fromkeys(found, OFFSET_INVALID) if len(answers) == 1 else found

    monkeypatch.setattr(admin, "list_offsets", without_an_offset_at_first)
    partition = Partition("asked-again", 0)
    assert KafkaTopics(broker).ends([partition]) == {partition: 0}
    assert len(answers) == 2
