"""Records are written in two ways, by librdkafka's own functions and by the public ones: both write
the same, to the byte."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer

from conftest import Command
from riverrun.kafka import admin, direct_sending
from riverrun.kafka.direct_sending import DirectSending, sending
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.sending import PublicSending, Sending
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.sinks.kafka.compacted import settled
from riverrun.sinks.kafka.records import PRODUCER

broker_needed = pytest.mark.broker
PARTITIONS = 3


def odd_rows(count: int, seed: int, *, timed: bool, text: bool = False) -> pa.Table:
    """Keys and values: missing, empty, short, long, with zero bytes, in several pieces."""
    chosen = random.Random(seed)

    def content() -> bytes | str | None:
        size = chosen.choice([None, 0, 1, 11, 100, 5000])
        if size is None or text:
            return None if size is None else "ü🦆"[: size % 3] * (size // 2)
        return chosen.randbytes(size)

    kind = pa.string() if text else pa.binary()
    columns = {name: pa.array([content() for _ in range(count)], kind) for name in ("key", "value")}
    if timed:
        columns["timestamp"] = pa.array(1_700_000_000_000 + number for number in range(count))
    rows = pa.table(columns)
    cuts = [0, count // 7, count // 7, count // 2, count]
    return pa.concat_tables([rows.slice(a, b - a) for a, b in pairwise(cuts)])


def producer(client: dict[str, str], topic: str) -> Producer:
    made = Producer({**client, **PRODUCER, "transactional.id": topic})
    made.init_transactions(30)
    return made


def write(client: dict[str, str], topic: str, rows: pa.Table, how: type[Sending] | None) -> None:
    own = producer(client, topic)
    handing = PublicSending(own) if how is PublicSending else sending(own)
    assert how is None or isinstance(handing, how)
    own.begin_transaction()
    handing.send(topic, rows)
    own.commit_transaction(30)


def stored(client: dict[str, str], topic: str) -> dict[int, list[tuple]]:
    """By partition, in order: keys, values and times."""
    places = [Partition(topic, number) for number in range(PARTITIONS)]
    [found] = RangeReader(client).read([settled(KafkaTopics(client), places)])
    names = ("__key", "__value", "__timestamp")
    return {
        place.number: list(zip(*(rows[name].to_pylist() for name in names), strict=True))
        for place, rows in found.items()
    }


def keyed(found: dict[int, list[tuple]], width: int) -> dict[int, list[tuple]]:
    """Records without a key go anywhere."""
    return {
        number: [row[:width] for row in rows if row[0] is not None]
        for number, rows in found.items()
    }


def keyless(found: dict[int, list[tuple]], width: int) -> list[tuple]:
    rows = (row[:width] for rows in found.values() for row in rows if row[0] is None)
    return sorted(rows, key=repr)


@broker_needed
@pytest.mark.parametrize("text", [False, True], ids=["bytes", "text"])
@pytest.mark.parametrize("timed", [False, True], ids=["table", "stream"])
def test_both_ways_write_the_same_records_to_the_same_partitions(broker, timed, text):
    rows, width = odd_rows(8000, 1, timed=timed, text=text), 3 if timed else 2
    found = {}
    for how in (PublicSending, DirectSending):
        topic = f"writing-{how.__name__}-{timed}-{text}"
        admin.create_topic(broker, topic, partitions=PARTITIONS)
        write(broker, topic, rows, how)
        found[how] = stored(broker, topic)
    public, direct = found.values()
    assert sum(map(len, direct.values())) == 8000
    assert keyed(direct, width) == keyed(public, width)
    assert keyless(direct, width) == keyless(public, width)


@broker_needed
@pytest.mark.parametrize("timed", [False, True], ids=["table", "stream"])
def test_more_than_the_queue_takes_is_waited_for_and_keeps_its_order(broker, monkeypatch, timed):
    monkeypatch.setattr(direct_sending, "MOST", 300)
    monkeypatch.setattr(direct_sending, "AT_ONCE", 100)
    monkeypatch.setattr(direct_sending, "MOST_BYTES", 40_000)
    monkeypatch.setattr(direct_sending, "AT_ONCE_BYTES", 20_000)
    topic, rows = f"writing-much-{timed}", odd_rows(3000, 2, timed=timed)
    numbered = pa.array(str(number).encode() for number in range(3000))
    rows = rows.set_column(0, "key", pa.array([b"one key"] * 3000))
    rows = rows.set_column(1, "value", numbered)
    admin.create_topic(broker, topic, partitions=PARTITIONS)
    write(broker, topic, rows, DirectSending)
    [found] = filter(None, stored(broker, topic).values())
    assert [value for _, value, _ in found] == numbered.to_pylist()


@broker_needed
@pytest.mark.parametrize("timed", [False, True], ids=["table", "stream"])
def test_a_record_that_is_too_large_is_an_error_and_nothing_is_written(broker, timed):
    topic, rows = f"writing-large-{timed}", odd_rows(50, 3, timed=timed)
    large = pa.array([b"x" * 2_000_000 if number == 40 else b"" for number in range(50)])
    admin.create_topic(broker, topic, partitions=PARTITIONS)
    with pytest.raises(KafkaException, match=r"(?i)too large"):
        write(broker, topic, rows.set_column(1, "value", large), DirectSending)
    write(broker, topic, odd_rows(10, 4, timed=timed), DirectSending)
    assert sum(map(len, stored(broker, topic).values())) == 10


@broker_needed
def test_what_is_sent_outside_of_a_transaction_is_refused(broker):
    admin.create_topic(broker, "writing-outside", partitions=PARTITIONS)
    own = producer(broker, "writing-outside")
    for timed in (False, True):
        with pytest.raises(KafkaException):
            sending(own).send("writing-outside", odd_rows(10, 5, timed=timed))


@broker_needed
def test_an_aborted_transaction_leaves_nothing(broker):
    admin.create_topic(broker, "writing-aborted", partitions=PARTITIONS)
    own = producer(broker, "writing-aborted")
    handing = sending(own)
    for number, end in enumerate((own.abort_transaction, own.commit_transaction)):
        own.begin_transaction()
        handing.send("writing-aborted", odd_rows(100 + number, number, timed=False))
        end(30)
    assert sum(map(len, stored(broker, "writing-aborted").values())) == 101


@broker_needed
def test_a_zombie_cannot_commit_what_it_sent_directly(broker):
    admin.create_topic(broker, "writing-zombie", partitions=PARTITIONS)
    zombie = producer(broker, "writing-zombie")
    zombie.begin_transaction()
    handing = sending(zombie)
    handing.send("writing-zombie", odd_rows(100, 6, timed=True))
    write(broker, "writing-zombie", odd_rows(7, 7, timed=True), DirectSending)
    with pytest.raises(KafkaException):
        zombie.commit_transaction(30)
    assert sum(map(len, stored(broker, "writing-zombie").values())) == 7


def test_a_producer_whose_handle_is_elsewhere_is_used_the_public_way(monkeypatch):
    own = Producer({"bootstrap.servers": "127.0.0.1:1"})
    assert isinstance(sending(own), DirectSending)
    for odd in ("x", object(), [own], 2**70, b"\xff" * 100):
        assert isinstance(sending(odd), PublicSending)


def test_status_tells_how_records_are_written(riverrun: Command, monkeypatch):
    assert "records are written the direct way" in riverrun("status", "--verbose").out
    monkeypatch.setenv("RIVERRUN_WRITER", "public")
    told = riverrun("status", "--verbose").out
    assert "records are written the public way: the setting says so" in told
    monkeypatch.setenv("RIVERRUN_WRITER", "odd")
    assert "there is no such writer" in riverrun("status", "--verbose").err
