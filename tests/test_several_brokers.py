"""Three brokers on loopback, of which one is killed amid reading and writing: nothing is lost,
nothing is twice, and every partition keeps its order. Both ways of reading and of writing."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from brokers import Servers, servers
from parts import EVALUATOR, part, stream
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import OUTAGE, KafkaTopics
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Destination
from riverrun.partitions import Partition, Range
from riverrun.sinks.kafka.compacted import settled
from riverrun.sinks.kafka.records import KafkaAtLeastOnce
from riverrun.sinks.kafka.transactions import KafkaExactlyOnce, progress_topic

pytestmark = pytest.mark.broker

PARTITIONS = 3
WAYS = ("direct", "public")
COUNT = 12_000
ROUNDS = 150
"""Batches of the long test."""


@pytest.fixture(scope="module")
def three(broker_settings, tmp_path_factory) -> Iterator[Servers]:
    with servers(broker_settings, tmp_path_factory.mktemp("three"), count=3) as found:
        yield found


@pytest.fixture
def topic(three, request) -> str:
    """One of its own, on all three."""
    return made(three, f"several-{abs(hash(request.node.name)) % 10**8}")


def made(three: Servers, name: str) -> str:
    for node in three.nodes.values():
        if node.process is None:
            node.start()
    three.until_up()
    admin.create_topic(three.client, name, partitions=PARTITIONS)
    three.until_copied(name)
    return name


def leader_of(three: Servers, topic: str) -> int:
    """A broker that leads a partition; not the first, which is the only controller."""
    return next(n for p in range(PARTITIONS) if (n := three.leader(topic, p)) != 1)


def fill(client: dict[str, str], topic: str, count: int) -> dict[int, list[bytes]]:
    """What is in each partition, in order."""
    producer = Producer({**client, "linger.ms": "5", "enable.idempotence": True})
    expected: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    for number in range(count):
        value = f"{number:08}".encode() * 25
        producer.produce(topic, value, b"k", partition=number % PARTITIONS)
        expected[number % PARTITIONS].append(value)
        producer.poll(0)
    assert producer.flush(60) == 0
    return expected


def ranges_of(client: dict[str, str], topic: str) -> list[Range]:
    places = [Partition(topic, number) for number in range(PARTITIONS)]
    return [Range(each, 0, end) for each, end in KafkaTopics(client).ends(places).items()]


def pieces(ranges: list[Range], size: int) -> list[list[Range]]:
    """As batches are: some of each partition at a time."""
    last = max(each.end for each in ranges)
    cuts = range(0, last, size)
    return [
        [Range(p, max(start, cut), min(end, cut + size)) for p, start, end in ranges if cut < end]
        for cut in cuts
    ]


def values(found: list[dict[Partition, pa.Table]]) -> dict[int, list[bytes]]:
    read: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    for each in found:
        for place, rows in each.items():
            read[place.number] += rows["__value"].to_pylist()
    return read


def test_what_is_read_over_a_leader_change_is_what_was_written(three, topic):
    expected = fill(three.client, topic, COUNT)
    groups = pieces(ranges_of(three.client, topic), COUNT // PARTITIONS // 10)
    readings = {way: RangeReader(three.client, way).read(groups) for way in WAYS}
    found: dict[str, list[dict[Partition, pa.Table]]] = {way: [] for way in WAYS}

    def read(count: int) -> None:
        for way in WAYS:
            found[way] += islice(readings[way], count)

    read(3)
    victim = leader_of(three, topic)
    three.nodes[victim].kill()
    read(3)
    assert three.leader(topic) != victim
    three.nodes[victim].start()
    read(len(groups))
    for way in WAYS:
        assert values(found[way]) == expected, way


def test_transactions_over_a_leader_change_take_effect_once(three):
    apps = {way: made(three, f"several-{way}") for way in WAYS}
    for app in apps.values():
        KafkaExactlyOnce(three.client).take_over(app, 1)
        three.until_copied(progress_topic(app))
    sinks = {way: KafkaExactlyOnce(three.client, writer=way) for way in WAYS}
    victim = leader_of(three, apps["direct"])
    for number in range(6):
        if number == 2:  # amid the next ones
            threading.Thread(target=three.nodes[victim].kill).start()
        if number == 4:
            three.nodes[victim].start()
        for way in WAYS:
            deliver(sinks[way], apps[way], number)
    for way, app in apps.items():
        deliver(KafkaExactlyOnce(three.client, writer=way), app, 5)  # again
        assert in_order(three.client, app) == [*range(3000)], way


def deliver(sink: Destination, app: str, batch: int, evaluator: Evaluator = EVALUATOR) -> None:
    """500 numbers; what is in a batch follows from its number."""
    sink.begin(part(app, batch))
    rows = range(batch * 500, batch * 500 + 500)
    sink.deliver(part(app, batch), [stream(app, *rows)], evaluator)


def in_order(client: dict[str, str], topic: str) -> list[int]:
    """All numbers, sorted; those of every partition are so already."""
    [found] = RangeReader(client).read([ranges_of(client, topic)])
    read = [[json.loads(each)["n"] for each in rows] for rows in values([found]).values()]
    assert all(numbers == sorted(numbers) for numbers in read)
    return sorted(n for numbers in read for n in numbers)


def test_at_least_once_loses_nothing_and_whoever_follows_sees_all(three, topic):
    """As `riverrun tail --follow` does."""
    sink, over, seen = KafkaAtLeastOnce(three.client), threading.Event(), set()
    victim = leader_of(three, topic)

    def follow() -> None:
        with Browser(three.client, topic) as browser:
            for message in browser.follow(browser.earliest, over):
                seen.add(json.loads(message.value())["n"])
                if len(seen) == 3000:
                    return

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        try:
            for number in range(6):
                if number == 3:
                    threading.Thread(target=three.nodes[victim].kill).start()
                deliver(sink, topic, number)
            following.result(60)
        finally:
            over.set()
    assert seen == {*range(3000)}


def test_a_broker_that_is_stopped_hands_over_and_nothing_is_noticed(three, topic):
    expected = fill(three.client, topic, 3000)
    topics = KafkaTopics(three.client, patience=30.0)
    three.nodes[leader_of(three, topic)].stop()
    places = [Partition(topic, number) for number in range(PARTITIONS)]
    assert topics.ends(places) == dict.fromkeys(places, 1000)
    for way in WAYS:
        found = [*RangeReader(three.client, way).read([ranges_of(three.client, topic)])]
        assert values(found) == expected, way


@pytest.mark.slow
def test_leaders_and_controllers_are_killed_again_and_again(broker_settings, tmp_path):
    """Every batch is read as soon as it is committed, while brokers come and go."""
    with servers(broker_settings, tmp_path, count=3, voters=3) as found:
        apps = {way: made(found, f"again-{way}") for way in WAYS}
        for app in apps.values():
            KafkaExactlyOnce(found.client).take_over(app, 1)
        chosen, over = random.Random(5), threading.Event()
        with ThreadPoolExecutor(3) as pool:
            killing = pool.submit(kill_at_random, found, chosen, over)
            writing = [pool.submit(write_and_read, found.client, w, a) for w, a in apps.items()]
            try:
                for each in writing:
                    seen, all_of = each.result(600), Counter(range(ROUNDS * 500))
                    assert (seen - all_of, all_of - seen) == (Counter(), Counter())  # twice, lost
            finally:
                over.set()
            killing.result(120)
        for app in apps.values():
            assert in_order(found.client, app) == [*range(ROUNDS * 500)]


def kill_at_random(found: Servers, chosen: random.Random, over: threading.Event) -> None:
    while not over.is_set():
        node = found.nodes[chosen.choice([*found.nodes])]
        over.wait(chosen.uniform(0.5, 3))
        node.kill()
        over.wait(chosen.uniform(0, 4))
        node.start()
        for app in WAYS:
            found.until_copied(f"again-{app}")


def write_and_read(client: dict[str, str], way: str, app: str) -> Counter[int]:
    """What a job sees that plans by what is committed, and reads it at once."""
    sink, reader = KafkaExactlyOnce(client, writer=way), RangeReader(client, way)
    topics = KafkaTopics(client, patience=OUTAGE)
    at = {Partition(app, number): 0 for number in range(PARTITIONS)}
    seen, evaluator = Counter[int](), Evaluator()  # one for each thread

    def look(ends: dict[Partition, int]) -> dict[Partition, int]:
        assert all(at[each] <= ends[each] for each in at), (at, ends)
        [read] = reader.read([[Range(each, at[each], ends[each]) for each in at]])
        seen.update(json.loads(v)["n"] for rows in values([read]).values() for v in rows)
        return ends

    for batch in range(ROUNDS):
        deliver(sink, app, batch, evaluator)
        at = look(topics.ends(at))
    look({each.partition: each.end for each in settled(topics, [*at])})
    return seen
