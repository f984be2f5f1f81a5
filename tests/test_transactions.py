"""Exactly once to Kafka: retries, zombies, later runs and changed programs, on a real broker."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from parts import EVALUATOR, part, stream, table
from riverrun.errors import AlreadyRunning, BrokerError, CheckpointError, TopicError
from riverrun.kafka import admin
from riverrun.kafka.direct_sending import sending
from riverrun.sinks.kafka import transactions
from riverrun.sinks.kafka.fitting import Limits
from riverrun.sinks.kafka.records import KafkaAtLeastOnce, encoded, send
from riverrun.sinks.kafka.transactions import KafkaExactlyOnce, progress_topic
from running import records
from running import table as rows_of

pytestmark = pytest.mark.broker


@pytest.fixture
def name(request, broker):
    """An application with an output topic of its own."""
    chosen = f"tx-{abs(hash(request.node.name)) % 10**8}-{time.time_ns() % 10**6}"
    admin.create_topic(broker, chosen, partitions=2)
    KafkaExactlyOnce(broker).take_over(chosen, 1)
    return chosen


def numbers(broker, topic):
    return sorted(json.loads(value)["n"] for _, value in records(broker, topic))


def test_a_part_that_is_delivered_again_takes_effect_once(broker, name):
    first = KafkaExactlyOnce(broker)
    first.deliver(part(name, 0), [stream(name, 1, 2)], EVALUATOR)
    first.deliver(part(name, 0), [stream(name, 1, 2)], EVALUATOR)
    KafkaExactlyOnce(broker).deliver(part(name, 0), [stream(name, 1, 2)], EVALUATOR)
    first.deliver(part(name, 1), [stream(name, 3)], EVALUATOR)
    first.deliver(part(name, 4), [stream(name, 4)], EVALUATOR)
    assert numbers(broker, name) == [1, 2, 3, 4]


def test_a_task_that_gets_ready_before_its_rows_are_there_delivers_them_once(broker, name):
    """As on Spark: `begin` for every batch, also for those that give no rows."""
    here, there = KafkaExactlyOnce(broker), KafkaExactlyOnce(broker)
    for batch, sink in enumerate([here, here, there, here, here]):
        for _ in range(2):  # and each task is run again
            sink.begin(part(name, batch))
            if batch != 1:
                sink.deliver(part(name, batch), [stream(name, batch)], EVALUATOR)
    assert numbers(broker, name) == [0, 2, 3, 4]


def test_the_order_of_rows_does_not_matter_to_a_retry(broker, name):
    KafkaExactlyOnce(broker).deliver(part(name), [stream(name, 1, 2, 3)], EVALUATOR)
    KafkaExactlyOnce(broker).deliver(part(name), [stream(name, 3, 1, 2)], EVALUATOR)
    assert numbers(broker, name) == [1, 2, 3]


def test_tasks_are_apart(broker, name):
    for task in (0, 1, 16, 17):  # 0 and 16 share a partition of the progress topic
        for _ in range(2):
            KafkaExactlyOnce(broker).deliver(part(name, task=task), [stream(name, task)], EVALUATOR)
    assert numbers(broker, name) == [0, 1, 16, 17]


def test_a_retry_with_a_checksum_that_differs_stops_loudly(broker, name):
    KafkaExactlyOnce(broker).deliver(part(name, 7), [stream(name, 1, 2)], EVALUATOR)
    for other in (stream(name, 1), stream(name, 1, 3)):
        with pytest.raises(CheckpointError, match="batch 7 was written before, with other results"):
            KafkaExactlyOnce(broker).deliver(part(name, 7), [other], EVALUATOR)
    kept = part(name, 7, keep_written=True)
    KafkaExactlyOnce(broker).deliver(kept, [stream(name, 1, 3)], EVALUATOR)
    assert numbers(broker, name) == [1, 2]


def test_a_deleted_checkpoint_never_skips(broker, name):
    KafkaExactlyOnce(broker).deliver(part(name, 5), [stream(name, 1)], EVALUATOR)
    fresh = part(name, 0, checkpoint="c2", run=2)
    KafkaExactlyOnce(broker).deliver(fresh, [stream(name, 1)], EVALUATOR)
    assert numbers(broker, name) == [1, 1]


def test_an_older_state_of_a_checkpoint_is_refused(broker, name):
    KafkaExactlyOnce(broker).deliver(part(name, 5), [stream(name, 1)], EVALUATOR)
    with pytest.raises(CheckpointError, match="stands at batch 3, and batch 5 is written"):
        KafkaExactlyOnce(broker).deliver(part(name, 3), [stream(name, 9)], EVALUATOR)


def test_progress_is_found_far_back(broker, name, monkeypatch):
    KafkaExactlyOnce(broker).deliver(part(name, 0, task=16), [stream(name, 1)], EVALUATOR)
    other = KafkaExactlyOnce(broker)
    for batch in range(6):
        other.deliver(part(name, batch, task=0), [stream(name, 10 + batch)], EVALUATOR)
    monkeypatch.setattr(transactions, "TAIL", 3)
    KafkaExactlyOnce(broker).deliver(part(name, 0, task=16), [stream(name, 1)], EVALUATOR)
    assert numbers(broker, name) == [1, *range(10, 16)]


def test_a_zombie_between_fencing_and_commit_writes_nothing(broker, name, monkeypatch):
    zombie, heir = KafkaExactlyOnce(broker), KafkaExactlyOnce(broker)
    waits, goes_on, commit = threading.Event(), threading.Event(), transactions._commit

    def hesitate(producer):
        if threading.current_thread() is sleeper:
            waits.set()
            goes_on.wait(30)
        commit(producer)

    monkeypatch.setattr(transactions, "_commit", hesitate)
    sleeper = threading.Thread(
        target=zombie.deliver, args=(part(name), [stream(name, 1, 2)], EVALUATOR)
    )
    sleeper.start()
    assert waits.wait(30)
    heir.deliver(part(name), [stream(name, 1, 2)], EVALUATOR)  # the same batch, run again
    goes_on.set()
    sleeper.join(60)
    heir.deliver(part(name, 1), [stream(name, 3)], EVALUATOR)
    assert numbers(broker, name) == [1, 2, 3]


def test_a_fenced_writer_cannot_commit(broker, name):
    """What the test above rests on: Kafka refuses the commit of a writer that was fenced."""
    producer = KafkaExactlyOnce(broker)._producer(name, 0)
    producer.begin_transaction()
    limits = Limits(broker)
    send(sending(producer), encoded([stream(name, 9)], EVALUATOR, limits), limits)
    producer.flush(10)
    KafkaExactlyOnce(broker).deliver(part(name), [stream(name, 1)], EVALUATOR)
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    assert numbers(broker, name) == [1]


def test_a_later_run_fences_an_earlier_one_and_not_the_other_way_round(broker, name):
    early, late = KafkaExactlyOnce(broker), KafkaExactlyOnce(broker)
    early.deliver(part(name, 0, run=1), [stream(name, 1)], EVALUATOR)
    late.take_over(name, 2)
    late.deliver(part(name, 0, run=2, checkpoint="c2"), [stream(name, 1)], EVALUATOR)
    with pytest.raises(AlreadyRunning, match="a later run of the application"):
        early.deliver(part(name, 1, run=1), [stream(name, 2)], EVALUATOR)
    late.deliver(part(name, 1, run=2, checkpoint="c2"), [stream(name, 2)], EVALUATOR)
    assert numbers(broker, name) == [1, 1, 2]


def test_all_topics_of_a_part_are_in_one_transaction(broker, name, monkeypatch):
    other = f"{name}-table"
    admin.create_topic(broker, other, config={"cleanup.policy": "compact"})
    seen = []

    def look(producer):
        producer.flush(10)
        seen.append((numbers(broker, name), records(broker, other)))
        producer.commit_transaction(10)

    monkeypatch.setattr(transactions, "_commit", look)
    found = [stream(name, 1), table(other, (1, "ann", 5))]
    KafkaExactlyOnce(broker).deliver(part(name), found, EVALUATOR)
    assert seen == [([], [])]
    assert numbers(broker, name) == [1]
    assert rows_of(broker, other) == {"ann": {"user": "ann", "n": 5}}


def test_a_table_is_upserts_and_tombstones(broker, name):
    topic = f"{name}-table"
    admin.create_topic(broker, topic, config={"cleanup.policy": "compact"})
    sink = KafkaExactlyOnce(broker)
    sink.deliver(part(name, 0), [table(topic, (1, "ann", 1), (1, "bob", 2))], EVALUATOR)
    changes = [(-1, "ann", 1), (1, "ann", 3), (-1, "bob", 2)]
    sink.deliver(part(name, 1), [table(topic, *changes)], EVALUATOR)
    assert sorted(records(broker, topic)[2:], key=lambda r: r[0]) == [
        ("ann", '{"user":"ann","n":3}'),
        ("bob", None),
    ]


def test_a_row_of_a_table_without_a_key_has_one_in_the_topic(broker):
    topic = f"keyless-{time.time_ns()}"
    admin.create_topic(broker, topic, config={"cleanup.policy": "compact"})
    sink = KafkaExactlyOnce(broker)
    sink.take_over(topic, 1)
    sink.deliver(part(topic), [table(topic, (1, None, 1), (1, "null", 2))], EVALUATOR)
    assert {key: row["n"] for key, row in rows_of(broker, topic).items()} == {"\0": 1, "null": 2}


def test_records_that_the_broker_refuses_stop_the_job_at_once(broker):
    topic = f"refused-{time.time_ns()}"
    admin.create_topic(broker, topic, config={"cleanup.policy": "compact"})
    sink = KafkaExactlyOnce(broker)
    sink.take_over(topic, 1)
    output, rows = stream(topic, 1)
    keyless = (replace(output, key=()), rows)
    with pytest.raises(BrokerError, match="validate record"):
        sink.deliver(part(topic), [keyless], EVALUATOR)


def test_keys_timestamps_and_headers_are_written(broker, name):
    output, rows = stream(name, 1, 2)
    marks = [[("trace", "a"), ("b", "ü")], []]
    kind = pa.map_("string", "string")
    rows = rows.append_column("__headers", pa.array(marks, kind))
    for sink in (KafkaExactlyOnce(broker), KafkaAtLeastOnce(broker)):
        sink.deliver(part(name), [(output, rows)], EVALUATOR)
    messages = read(broker, name)
    found = {(m.key(), m.timestamp()[1] % 60_000, tuple(m.headers() or ())) for m in messages}
    assert found == {
        (b"u1", 1000, (("trace", b"a"), ("b", "ü".encode()))),
        (b"u2", 2000, ()),
    }
    assert len(messages) == 4


def read(broker, topic):
    settings = {**broker, "group.id": "t", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(2)])
    found = []
    while (message := consumer.poll(3)) is not None:
        found.append(message)
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("made", "config", "wanted"),
    [
        (table, {}, "set cleanup.policy=compact"),
        (stream, {"cleanup.policy": "compact"}, "set cleanup.policy=delete"),
    ],
)
def test_a_topic_with_the_wrong_policy_is_an_error_that_says_what_to_change(
    broker, name, made, config, wanted
):
    topic = f"{name}-wrong"
    admin.create_topic(broker, topic, config=config)
    output, _ = made(topic, (1, "a", 1)) if made is table else made(topic, 1)
    with pytest.raises(TopicError, match=wanted):
        KafkaExactlyOnce(broker).prepare([output])


def test_a_topic_with_another_number_of_partitions_is_an_error(broker, name):
    output, _ = stream(name, 1)
    with pytest.raises(TopicError, match="has 2 partitions, not 3"):
        KafkaExactlyOnce(broker).prepare([replace(output, sink=replace(output.sink, partitions=3))])


def test_progress_is_kept_in_a_compacted_topic(broker, name):
    assert admin.settings(broker, progress_topic(name))["cleanup.policy"] == "compact"
