"""Reads a topic without a group: committed records only, nothing is remembered on the broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from threading import Event
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from riverrun.errors import BrokerError
from riverrun.kafka import admin
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition

SETTINGS = {
    "group.id": "riverrun-browse",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
}
SILENCE = timedelta(seconds=15)
Offsets = Mapping[int, int]


class Browser:
    """A reader of one topic. Use it in a `with` block."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self.topic, self._client = admin.describe(client, topic), client
        settings: dict[str, Any] = {**client, **SETTINGS}
        self._consumer = Consumer(settings, logger=admin.quiet)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def earliest(self) -> Offsets:
        return {partition.number: partition.start for partition in self.topic.partitions}

    @property
    def latest(self) -> Offsets:
        return {partition.number: partition.end for partition in self.topic.partitions}

    def since(self, moment: datetime) -> Offsets:
        """The first offsets with a timestamp at or after the moment."""
        milliseconds = int(moment.timestamp() * 1000)
        asked = [TopicPartition(self.topic.name, p, milliseconds) for p in self.latest]
        found = self._consumer.offsets_for_times(asked, timeout=admin.PATIENCE.total_seconds())
        ends = self.latest
        return {p.partition: p.offset if p.offset >= 0 else ends[p.partition] for p in found}

    def last(self, count: int) -> list[Message]:
        """The last records of all partitions together, by timestamp."""
        reach, first = count, self.earliest
        while True:
            starts = {p: max(first[p], end - reach) for p, end in self.latest.items()}
            found = sorted(self.read(starts), key=_position)
            if len(found) >= count or starts == first:
                return found[-count:] if count else []
            # Transactions and compaction leave gaps between offsets: reach back further.
            reach *= 4

    def read(self, starts: Offsets) -> Iterator[Message]:
        """The records from these offsets up to the end as it was when the topic was opened."""
        ends = {p: end for p, end in self.latest.items() if starts[p] < end}
        self._assign({p: starts[p] for p in ends})
        heard_at = time.monotonic()
        while ends:
            messages = self._consume()
            heard_at = self._still_there(messages, heard_at)
            for message in messages:
                partition, offset = _place(message)
                if message.error() is None and offset < self.latest[partition]:
                    yield message
                if self._is_last(message, partition, offset):
                    ends.pop(partition, None)

    def _is_last(self, message: Message, partition: int, offset: int) -> bool:
        """An end before that of the topic is one if a transaction is open there. A leader that is
        new may not know yet what is committed, and says so when it is asked."""
        if message.error() is None:
            return offset + 1 >= self.latest[partition]
        if offset >= self.latest[partition]:
            return True
        place = Partition(self.topic.name, partition)
        return KafkaTopics(self._client).ends([place])[place] <= offset

    def follow(self, starts: Offsets, ended: Event) -> Iterator[Message]:
        """The records from these offsets on, until the event is set."""
        self._assign(starts)
        while not ended.is_set():
            yield from (m for m in self._consume() if m.error() is None)

    def _assign(self, starts: Offsets) -> None:
        self._consumer.assign([TopicPartition(self.topic.name, p, o) for p, o in starts.items()])

    def _consume(self) -> list[Message]:
        """What has arrived: records, and ends of partitions."""
        messages = self._consumer.consume(1000, timeout=0.1)
        failed = next((e for m in messages if (e := m.error()) and not _harmless(e)), None)
        if failed:
            raise BrokerError("Kafka refuses to be read", where=self.topic.name, got=failed.str())
        return [m for m in messages if m.error() is None or _ended(m)]

    def _still_there(self, messages: list[Message], heard_at: float) -> float:
        if messages:
            return time.monotonic()
        if time.monotonic() - heard_at > SILENCE.total_seconds():
            raise BrokerError("Kafka has stopped answering", where=self.topic.name, got="silence")
        return heard_at


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def _position(message: Message) -> tuple[int, int, int]:
    return (message.timestamp()[1], *_place(message))


def _ended(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _harmless(error: KafkaError) -> bool:
    return error.code() == KafkaError._PARTITION_EOF or error.retriable()
