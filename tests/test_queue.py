"""Queues on a real broker: who gets a message, how often and in which order; none is lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import riverrun as rr
from queueing import Process, fresh, letters, put, taken, written
from riverrun.errors import BrokerError, NoTopic
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser

pytestmark = pytest.mark.broker

SENT = 1_700_000_000_123
HOLDER = """
import sys, time
import riverrun as rr

lines, topic, group = sys.argv[1:]


def say(text):
    with open(lines, "a") as file:
        file.write(text + "\\n")


message = rr.queue(topic, group=group).take()
say(f"has {message.value}")
time.sleep(100)
"""


def test_a_message_has_all_of_its_record_whatever_it_was_packed_with(broker):
    topic = fresh(broker, "packed")
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({**broker, "compression.type": compression, "linger.ms": "50"})
        headers = [("a", b"1"), ("a", b"\xff"), ("b", None)]
        for number in range(3):
            value = json.dumps({"number": number, "text": compression * 500})
            producer.produce(
                topic, value, f"k{number}", headers=headers, timestamp=1_700_000_000_123
            )
        producer.produce(topic, None, b"\xfe")
        assert producer.flush(10) == 0
    with rr.queue(topic, group=topic) as queue:
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            for number in range(3):
                with queue.take() as message:
                    assert message.value == {"number": number, "text": compression * 500}
                assert (message.key, message.deliveries) == (f"k{number}", 1)
                assert message.headers == {"a": "�", "b": None}
                assert message.timestamp.isoformat() == "2023-11-14T22:13:20.123000+00:00"
                assert message.settled == "done"
            with queue.take() as message:
                assert (message.value, message.key) == (None, "\\xfe")
        assert message.place == f"{topic}/0/{message.offset}" == f"{topic}/0/19"
        assert queue.take("0.2 seconds") is None
    assert queue.counts.done == 20


def test_only_committed_records_are_messages(broker):
    topic = fresh(broker, "committed")
    producer = Producer({**broker, "transactional.id": topic, "linger.ms": "5"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush(10)
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(30)
    with rr.queue(topic, group=topic) as queue:
        assert taken(queue) == [0, 2, 3, 5]


def test_order_when_a_worker_dies_is_that_of_the_textbook(broker, tmp_path):
    """One has m3 and dies while another finishes m4: m4, m3, m5."""
    topic = fresh(broker, "order")
    put(broker, topic, ["m3"])
    brokers = broker["bootstrap.servers"]
    arguments = (written(tmp_path, HOLDER), tmp_path / "lines", topic, topic)
    with Process(*arguments, brokers=brokers) as worker, rr.queue(topic, group=topic) as queue:
        worker.until("has m3")
        put(broker, topic, ["m4", "m5"])
        finished = []
        with queue.take() as message:
            finished.append(message.value)
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait()
            time.sleep(1)  # for the broker to see that its connection is gone
        for message in queue.messages(idle="1 second"):
            finished.append(message.value)
            assert message.deliveries == (2 if message.value == "m3" else 1)
            message.done()
    assert finished == ["m4", "m3", "m5"]


def test_what_is_released_comes_again_and_what_is_forgotten_too(broker):
    topic = fresh(broker, "released")
    put(broker, topic, range(4))
    seen = []
    with rr.queue(topic, group=topic) as queue:
        for message in queue.messages(idle="1 second"):
            seen.append((message.value, message.deliveries))
            if message.value == 1 and message.deliveries == 1:
                message.release()
            elif message.value != 2 or message.deliveries > 1:
                message.done()
        with pytest.raises(rr.ProgramError, match="the message is done already"):
            message.release()
        counts = queue.counts
    assert Counter(seen) == Counter([(0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
    assert (counts.done, counts.released, counts.again, counts.lost) == (4, 2, 2, 0)


def test_a_letter_that_is_retried_comes_to_its_own_group_only(broker, riverrun):
    topic = fresh(broker, "retried")
    put(broker, topic, [1, 2])
    mine, others = f"{topic}-mine", f"{topic}-others"
    with rr.queue(topic, group=mine) as queue, rr.queue(topic, group=others) as other:
        queue.take().reject("not today")
        queue.take().reject("not today")
        assert taken(other) == [1, 2], "each group gets all of them"
        again = riverrun("dead", "retry", mine, "--all")
        assert again.out == "sent 2 records again\n", again.err
        assert taken(queue) == [1, 2]
        assert taken(other) == []
        assert other.counts.skipped == 2
    assert [each["headers"] for each in letters(broker, mine)] == [None, None]


def test_one_batch_of_a_producer_is_shared_out_among_the_workers_of_a_group(broker):
    topic = fresh(broker, "shared")
    put(broker, topic, range(60))
    found = {name: [] for name in "abc"}

    def work(name):
        with rr.queue(topic, group=topic) as queue:
            for message in queue.messages(idle="1 second"):
                found[name].append(message.value)
                time.sleep(0.02)
                message.done()

    threads = [threading.Thread(target=work, args=(name,)) for name in found]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each for of_one in found.values() for each in of_one) == list(range(60))
    assert min(map(len, found.values())) >= 5, found


def test_a_worker_that_was_killed_leaves_nothing_behind_in_its_partitions(broker, tmp_path):
    topic = fresh(broker, "behind", partitions=4)
    producer = Producer(broker)
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 4)
    assert producer.flush(10) == 0
    brokers = broker["bootstrap.servers"]
    arguments = (written(tmp_path, HOLDER), tmp_path / "lines", topic, topic)
    with Process(*arguments, brokers=brokers) as worker:
        worker.until("has 0")
        with rr.queue(topic, group=topic) as queue:
            first = queue.take()  # we are two now, with two partitions each
            worker.process.kill()
            worker.process.wait()
            begun_at = time.monotonic()
            assert sorted([first.value, *taken(queue)]) == list(range(20))
            assert time.monotonic() - begun_at < 20, "the group forgets a worker after 45 seconds"


def test_a_lock_is_renewed_as_long_as_its_worker_may_take_and_then_runs_out(broker):
    topic = fresh(broker, "long")
    put(broker, topic, ["long", "too long"])
    patient = rr.queue(topic, group=topic, lock="1 second")
    hasty = rr.queue(topic, group=topic, lock="1 second", longest="0.5 seconds")
    with patient, hasty:
        long = patient.take()
        too_long = hasty.take()
        time.sleep(3)
        again = patient.take()
        assert (again.value, again.deliveries) == ("too long", 2)
        assert too_long.lost
        assert not too_long.done(), "the broker has given it to another"
        assert long.done()
        assert again.done()
        assert (hasty.counts.done, hasty.counts.lost) == (1, 1)
        assert (patient.counts.done, patient.counts.lost) == (2, 0)
        assert patient.take("0.5 seconds") is None


def test_work_that_is_too_long_is_handed_over_to_whoever_reads_another_topic(broker):
    topic, slow = fresh(broker, "handing"), fresh(broker, "slow")
    producer = Producer(broker)
    producer.produce(topic, b'{"hours": 9}', b"k", headers=[("a", b"\xff")])
    assert producer.flush(10) == 0
    with rr.queue(topic, group=topic) as queue:
        message = queue.take()
        with pytest.raises(NoTopic, match="there is no topic 'nowhere'"):
            message.hand_over("nowhere")
        assert message.settled is None
        assert message.hand_over(slow)
        assert queue.take("0.3 seconds") is None
    with Browser(broker, slow) as browser:
        [found] = browser.read(browser.earliest)
    assert (found.key(), found.value()) == (b"k", b'{"hours": 9}')
    assert found.headers() == [("a", b"\xff")]


def test_one_lock_that_ran_out_does_not_spoil_what_others_have_done(broker):
    topic = fresh(broker, "spoilt")
    put(broker, topic, range(5))
    with rr.queue(topic, group=topic, lock="1 second", longest="0.5 seconds") as queue:
        first = queue.take()
        time.sleep(1.5)
        with rr.queue(topic, group=topic) as other:
            second = other.take()
            assert (second.value, second.deliveries) == (0, 2)
            rest = [queue.take() for _ in range(4)]
            answers = {}

            def done(message):
                answers[message.value] = message.done()

            threads = [threading.Thread(target=done, args=(each,)) for each in [first, *rest]]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
    assert answers == {0: False, 1: True, 2: True, 3: True, 4: True}


def test_a_message_that_kills_its_workers_is_a_dead_letter_before_kafka_drops_it(broker, tmp_path):
    topic = fresh(broker, "poison")
    put(broker, topic, ["poison"])
    brokers = broker["bootstrap.servers"]
    program = written(tmp_path, HOLDER)
    for number in range(2):
        lines = tmp_path / f"lines{number}"
        with Process(program, lines, topic, topic, brokers=brokers) as worker:
            worker.until("has poison")
    with rr.queue(topic, group=topic, tries=2) as queue:
        assert queue.take("1 second") is None
    [letter] = letters(broker, topic)
    assert (letter["value"], letter["deliveries"]) == ('"poison"', 3)
    assert letter["cause"].startswith("it was delivered 2 times and never settled")


def test_what_a_queue_cannot_be_is_said_clearly(broker):
    with pytest.raises(NoTopic, match="there is no topic 'nowhere'"):
        rr.queue("nowhere", group="workers").take()
    topic = fresh(broker, "refused")
    admin.create_topic(broker, f"{topic}-other")
    with rr.queue(topic, group=topic) as queue:
        assert queue.take("0.1 seconds") is None
    with pytest.raises(BrokerError, match=r"lock\.duration"):
        rr.queue(topic, group=topic, lock="0.1 seconds").take()
    reader = Consumer({**broker, "group.id": f"{topic}-readers", "enable.auto.commit": "false"})
    reader.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    reader.close()
    with pytest.raises(BrokerError, match="does not take us into the group") as refused:
        rr.queue(topic, group=f"{topic}-readers").take()
    assert "is not a share group" in refused.value.got
    with pytest.raises(rr.ProgramError, match="tries is 1 to 8"):
        rr.queue(topic, group=topic, tries=9)
    with pytest.raises(rr.ProgramError, match="needs a schema"):
        rr.queue(topic, group=topic, format="debezium")
