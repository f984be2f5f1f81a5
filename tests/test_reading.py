"""Records are read in two ways, by librdkafka's own functions and by the public ones: both give
what was written, to the byte."""

from __future__ import annotations

import multiprocessing
import random

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer

from conftest import Command
from riverrun.errors import RecordsGone
from riverrun.kafka import admin, direct_consuming, direct_headers, ranges
from riverrun.kafka.browse import Browser
from riverrun.kafka.consuming import Consuming, Taken
from riverrun.kafka.direct_consuming import DirectConsuming
from riverrun.kafka.librdkafka import way_of, why_not
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.records import HEADERS, bytes_of
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range
from riverrun.sources.records import HEADER_TEXTS

broker_needed = pytest.mark.broker
NAMES = ["__value", "__key", "__timestamp", "__offset"]


def odd_records(count: int, seed: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values: missing, empty, short, long, with zero bytes, in every combination."""
    chosen = random.Random(seed)

    def content() -> bytes | None:
        size = chosen.choice([None, 0, 1, 11, 12, 13, 100, 127, 128, 5000])
        return None if size is None else chosen.randbytes(size)

    return [(content(), content()) for _ in range(count)]


def written(client, topic, records, *, partitions=2, **settings):
    """What is expected of each partition, in order."""
    producer = Producer({**client, **settings})
    expected: dict[int, list[tuple]] = {number: [] for number in range(partitions)}
    for number, (key, value) in enumerate(records):
        at = 1_700_000_000_000 + number
        producer.produce(topic, value, key, partition=number % partitions, timestamp=at)
        expected[number % partitions].append((value, key, at))
        producer.poll(0)
    assert producer.flush(30) == 0
    return expected


def read(client, topic, way, *, headers=False, partitions=2):
    places = [Partition(topic, number) for number in range(partitions)]
    ends = KafkaTopics(client).ends(places)
    ranges = [Range(each, 0, ends[each]) for each in places]
    wanted = frozenset([topic]) if headers else frozenset()
    [found] = RangeReader(client, way).read([ranges], wanted)
    return {each.number: rows for each, rows in found.items()}


def contents(rows):
    return list(zip(*(rows[name].to_pylist() for name in NAMES[:3]), strict=True))


@broker_needed
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_odd_keys_and_values_read_alike(broker, codec):
    topic = f"reading-{codec}"
    admin.create_topic(broker, topic, partitions=2)
    expected = written(broker, topic, odd_records(3000, 7), **{"compression.type": codec})
    for way in ("direct", "public"):
        found = read(broker, topic, way)
        assert {number: contents(rows) for number, rows in found.items()} == expected, way
        assert found[0]["__offset"].to_pylist() == list(range(1500))


@broker_needed
def test_records_of_a_megabyte_read_alike(broker):
    admin.create_topic(broker, "reading-large", partitions=2)
    records = [(b"k" * size, bytes([size % 251]) * size) for size in (1, 990_000 // 2, 13, 400_000)]
    expected = written(broker, "reading-large", records)
    for way in ("direct", "public"):
        found = read(broker, "reading-large", way)
        assert {number: contents(rows) for number, rows in found.items()} == expected, way


@broker_needed
def test_aborted_records_are_in_neither(broker):
    admin.create_topic(broker, "reading-aborted", partitions=2)
    producer = Producer({**broker, "transactional.id": "reading"})
    producer.init_transactions()
    kept = []
    for number in range(30):
        producer.begin_transaction()
        for part in range(20):
            value = f"{number}-{part}".encode()
            producer.produce("reading-aborted", value, partition=part % 2)
            kept += [value] if number % 3 else []
        if number % 3:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    ways = [read(broker, "reading-aborted", way) for way in ("direct", "public")]
    for found in ways:
        values = [value for rows in found.values() for value in rows["__value"].to_pylist()]
        assert sorted(values) == sorted(kept)
    assert [each.equals(ways[1][number]) for number, each in ways[0].items()] == [True, True]


@broker_needed
def test_append_time_is_read_alike(broker):
    config = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topic(broker, "reading-append", partitions=2, config=config)
    written(broker, "reading-append", odd_records(100, 1))
    one, other = (read(broker, "reading-append", way) for way in ("direct", "public"))
    assert all(rows.equals(other[number]) for number, rows in one.items())
    assert min(one[0]["__timestamp"].to_pylist()) > 1_750_000_000_000


@broker_needed
def test_where_the_timestamp_is_not_where_it_was_the_public_function_is_asked(broker, monkeypatch):
    admin.create_topic(broker, "reading-elsewhere", partitions=2)
    expected = written(broker, "reading-elsewhere", odd_records(200, 3))
    monkeypatch.setattr(direct_consuming, "TIMESTAMP", direct_consuming.OFFSET)
    found = read(broker, "reading-elsewhere", "direct")
    assert {number: contents(rows) for number, rows in found.items()} == expected


@broker_needed
def test_messages_are_given_back_one_by_one_where_a_list_is_not_known(broker, monkeypatch):
    admin.create_topic(broker, "reading-single", partitions=2)
    expected = written(broker, "reading-single", odd_records(200, 4))
    monkeypatch.setattr(direct_consuming._Functions, "_destroy_all", lambda self: None)
    found = read(broker, "reading-single", "direct")
    assert {number: contents(rows) for number, rows in found.items()} == expected


def odd_headers(count: int, seed: int) -> list[list[tuple[str, bytes | None]]]:
    chosen = random.Random(seed)

    def one() -> tuple[str, bytes | None]:
        size = chosen.choice([None, 0, 1, 12, 13, 63, 64, 8191, 8192])
        name = chosen.choice(["", "a", "trace", "übung", "n" * 200])
        return name, None if size is None else chosen.randbytes(size)

    return [[one() for _ in range(chosen.choice([0, 0, 1, 2, 5]))] for _ in range(count)]


@broker_needed
@pytest.mark.parametrize("seed", [1, 2])
def test_headers_read_alike(broker, seed):
    topic, count = f"reading-headers-{seed}", 3000
    admin.create_topic(broker, topic, partitions=1)
    producer = Producer(broker)
    wanted = odd_headers(count, seed)
    for (key, value), headers in zip(odd_records(count, seed), wanted, strict=True):
        producer.produce(topic, value, key, headers=headers)
        producer.poll(0)
    assert producer.flush(30) == 0
    direct, public = (
        read(broker, topic, way, headers=True, partitions=1)[0] for way in ("direct", "public")
    )
    assert direct.select([*NAMES, "__headers"]).equals(public.select([*NAMES, "__headers"]))
    found = [each or [] for each in direct["__headers"].to_pylist()]
    assert [[(h["name"], h["value"]) for h in each] for each in found] == wanted


@broker_needed
@pytest.mark.parametrize("way", ["direct", "public"])
def test_headers_count_where_lots_are_bounded_by_their_bytes(broker, monkeypatch, way):
    topic = f"reading-large-headers-{way}"
    admin.create_topic(broker, topic, partitions=1)
    producer = Producer(broker)
    for _ in range(40):
        producer.produce(topic, b"v", headers=[("large", b"x" * 10_000)])
    assert producer.flush(30) == 0
    monkeypatch.setattr(ranges, "MOST_BYTES", 200_000)
    monkeypatch.setattr(ranges, "PIECE_BYTES", 100_000)
    whole = [[Range(Partition(topic, 0), 0, 40)]]
    sizes = {}
    for headers in (True, False):
        wanted = frozenset([topic] if headers else [])
        found = RangeReader(broker, way).read(whole, wanted)
        sizes[headers] = [each[Partition(topic, 0)].num_rows for each in found]
    assert sizes == {True: [10, 10, 10, 10], False: [40]}


def test_a_name_with_a_null_byte_is_left_to_the_public_functions():
    record = b"\x02\x06a\x00b\x02v"  # one header: its name of 3 bytes, its value of 1
    kept = np.frombuffer(record + b" " * 64, np.uint8)
    at, size = np.array([kept.ctypes.data]), np.array([len(record)])
    assert direct_headers._parsed(at, size) is None


@broker_needed
def test_where_headers_are_not_where_they_were_the_public_functions_are_asked(broker, monkeypatch):
    admin.create_topic(broker, "reading-other-headers", partitions=1)
    producer = Producer(broker)
    producer.produce(
        "reading-other-headers", b"v", headers=[("a", b"\xff"), ("a", b"2"), ("b", None)]
    )
    producer.flush()
    for wrong in (lambda *_: False, lambda *_: True):
        monkeypatch.setattr(direct_headers, "_behind", wrong)
        monkeypatch.setattr(direct_headers, "_parsed", lambda at, size: pa.nulls(len(at), HEADERS))
        [found] = read(
            broker, "reading-other-headers", "direct", headers=True, partitions=1
        ).values()
        assert [tuple(each.values()) for each in found["__headers"][0].as_py()] == [
            ("a", b"\xff"), ("a", b"2"), ("b", None),
        ]  # fmt: skip


def _in_child(client, queue):
    [found] = RangeReader(client, "direct").read([[Range(Partition("reading-forked", 0), 0, 50)]])
    queue.put(sum(rows.num_rows for rows in found.values()))


@broker_needed
def test_a_process_that_forked_after_reading_reads_on_its_own(broker):
    admin.create_topic(broker, "reading-forked", partitions=2)
    written(broker, "reading-forked", odd_records(100, 5))
    assert read(broker, "reading-forked", "direct")[0].num_rows == 50
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(broker, queue))
    child.start()
    assert queue.get(timeout=30) == 50
    child.join(30)
    assert child.exitcode == 0


class Played(Consuming):
    """Gives what it is told to give."""

    def __init__(self, *taken: Taken) -> None:
        self.taken = list(taken)

    def assign(self, places): ...

    def drop(self, partitions): ...

    def take(self, most):
        return self.taken.pop(0) if self.taken else Taken([], [], [])


def rows_at(*offsets: int) -> pa.Table:
    columns = {name: pa.array([b"x" for _ in offsets]) for name in NAMES[:2]}
    return pa.table({**columns, "__timestamp": [*offsets], "__offset": [*offsets]})


def test_an_end_before_that_of_the_range_is_waited_behind():
    """As of a leader that is new, and does not know yet that the last records are committed."""
    place = Partition("reading-lagging", 0)
    reader = RangeReader({"bootstrap.servers": "127.0.0.1:1"})
    reader.consumers[False] = Played(
        Taken([], [(place, 5)], []),
        Taken([(place, rows_at(5, 6))], [(place, 7)], []),
        Taken([(place, rows_at(7))], [(place, 9)], []),  # at 8 a transaction ends
    )
    [found] = reader.read([[Range(place, 5, 9)]])
    assert found[place]["__offset"].to_pylist() == [5, 6, 7]


@broker_needed
@pytest.mark.parametrize("way", ["direct", "public"])
def test_records_that_were_promised_and_are_not_there_are_an_error(broker, monkeypatch, way):
    monkeypatch.setattr(ranges, "OUTAGE", 0.5)
    topic = f"reading-cut-off-{way}"
    admin.create_topic(broker, topic, partitions=2)
    written(broker, topic, odd_records(10, 6))
    with pytest.raises(RecordsGone, match="it ends at offset 5, and had records up to 8"):
        [*RangeReader(broker, way).read([[Range(Partition(topic, 0), 0, 8)]])]


class End:
    """What a consumer says at the end of a partition."""

    def __init__(self, offset: int) -> None:
        self.offset, self.partition = lambda: offset, lambda: 0

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._PARTITION_EOF)


@broker_needed
def test_whoever_browses_waits_behind_an_early_end_and_not_for_an_open_transaction(
    broker, monkeypatch
):
    topic = "reading-browsed"
    admin.create_topic(broker, topic, partitions=1)
    written(broker, topic, odd_records(10, 8), partitions=1)
    producer = Producer({**broker, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    with Browser(broker, topic) as browser:
        assert browser.latest == {0: 11}
        consume, early = browser._consume, [End(4)]
        monkeypatch.setattr(browser, "_consume", lambda: [early.pop()] if early else consume())
        assert [each.offset() for each in browser.read(browser.earliest)] == [*range(10)]
    producer.abort_transaction()


def test_another_librdkafka_than_those_tried_is_read_the_public_way(monkeypatch):
    monkeypatch.setattr("confluent_kafka.libversion", lambda: ("3.0.0", 0))
    assert "3.0.0" in (why_not() or "")
    assert way_of("quickest") == "public"


def test_a_setting_that_librdkafka_does_not_know_is_an_error():
    with pytest.raises(Exception, match="No such configuration property"):
        DirectConsuming({"bootstrap.servers": "127.0.0.1:1", "no.such.thing": "1"})


def test_status_tells_how_records_are_read(riverrun: Command, monkeypatch):
    monkeypatch.setenv("RIVERRUN_READER", "public")
    assert "public way: the setting says so" in riverrun("status", "--verbose").out
    monkeypatch.setenv("RIVERRUN_READER", "odd")
    assert "there is no such reader" in riverrun("status", "--verbose").err


def test_bytes_of_headers_are_those_of_their_names_and_values():
    texts = pa.array([[("a", "bb"), ("c", None)], None, [], [("ü", "x")]], HEADER_TEXTS)
    pairs = [
        [{"name": k, "value": v and v.encode()} for k, v in each or ()]
        for each in texts.to_pylist()
    ]
    for column in (texts, pa.array(pairs, HEADERS)):
        assert bytes_of(pa.chunked_array([column])) == 7
        assert bytes_of(pa.chunked_array([column.slice(3), column.slice(0, 1)])) == 7
    assert bytes_of(pa.chunked_array([pa.nulls(3)])) == 0
    assert bytes_of(pa.chunked_array([pa.array(["ab", None], pa.binary())])) == 2
