"""Taking records from a client of Kafka, thousands at a time, as columns of Arrow.

A column of such a lot is one `map` over a method of the client, and becomes Arrow at once: what
costs is Python's work per record, and records that have left the cache meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from riverrun.errors import BrokerError
from riverrun.kafka import admin
from riverrun.kafka.records import columns_of
from riverrun.partitions import Partition

AT_MOST = 10
"""Milliseconds to wait until there are as many records as are asked for."""

SETTINGS = {
    "group.id": "riverrun",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "fetch.message.max.bytes": str(4 << 20),
    "queued.max.messages.kbytes": str(16 << 10),
    "fetch.wait.max.ms": "20",
    "fetch.queue.backoff.ms": "5",  # by default a full queue stops fetching for a whole second
}


class Taken(NamedTuple):
    runs: list[tuple[Partition, pa.Table]]
    """Records of one partition after the other, as they came."""
    ended: list[tuple[Partition, int]]
    """Those that hold no more for now, and where: all before that offset was given. A leader that
    is new may take a moment to know of the last records that the one before had committed."""
    errors: list[tuple[Partition, KafkaError]]
    """What is wrong with a partition. An outage of brokers is none of them."""

    def __bool__(self) -> bool:
        return bool(self.runs or self.ended or self.errors)


class Consuming(ABC):
    """Reads partitions of one topic from where it is told."""

    @abstractmethod
    def assign(self, places: Mapping[Partition, int]) -> None:
        """From here on these partitions, each from its offset, and no others."""

    @abstractmethod
    def drop(self, partitions: Collection[Partition]) -> None:
        """Reads these no further."""

    @abstractmethod
    def take(self, most: int) -> Taken: ...


class PublicConsuming(Consuming):
    """By the public interface of confluent_kafka."""

    def __init__(self, client: Mapping[str, str], *, headers: bool) -> None:
        self.headers = headers
        self.consumer = Consumer({**client, **SETTINGS}, logger=admin.quiet)

    def assign(self, places: Mapping[Partition, int]) -> None:
        if places:
            self.consumer.assign([TopicPartition(*p, offset) for p, offset in places.items()])
        else:
            self.consumer.unassign()

    def drop(self, partitions: Collection[Partition]) -> None:
        self.consumer.incremental_unassign([TopicPartition(*each) for each in partitions])

    def take(self, most: int) -> Taken:
        messages = self.consumer.consume(most, AT_MOST / 1000)
        taken = Taken([], [], [])
        if any(map(Message.error, messages)):
            messages = [each for each in messages if not _is_note(each, taken)]
        if messages:
            numbers = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
            rows = self.columns(messages)
            topic = messages[0].topic() or ""
            taken.runs.extend(runs(topic, numbers, rows))
        return taken

    def columns(self, messages: list[Message]) -> pa.Table:
        return _columns(messages, headers=self.headers)


def runs(
    topic: str, numbers: np.ndarray[Any, Any], rows: pa.Table
) -> Iterator[tuple[Partition, pa.Table]]:
    """Rows in runs of one partition. `numbers` are those of their partitions."""
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(cuts):
        yield Partition(topic, int(numbers[start])), rows.slice(start, end - start)


def _columns(messages: list[Message], *, headers: bool) -> pa.Table:
    times = map(itemgetter(1), map(Message.timestamp, messages))
    found = {
        "__value": list(map(Message.value, messages)),
        "__key": list(map(Message.key, messages)),
        "__timestamp": np.fromiter(times, np.int64, len(messages)),
        "__offset": np.fromiter(map(Message.offset, messages), np.int64, len(messages)),
    }
    return columns_of(found, _headers(messages) if headers else None)


def _headers(messages: list[Message]) -> list[Any]:
    try:
        return list(map(Message.headers, messages))
    except (SystemError, UnicodeDecodeError) as error:
        first = messages[0]
        raise BrokerError(
            "the name of a header is not UTF-8, and Kafka's client for Python cannot tell it",
            where=f"{first.topic()}/{first.partition()}",
            got=f"one of {len(messages):,} records from offset {first.offset()} on",
            hint='the setting `reader = "quickest"` reads it, where that is possible',
        ) from error


def _is_note(message: Message, taken: Taken) -> bool:
    """Whether this is no record, but tells something of a partition, or of brokers."""
    error, topic, number = message.error(), message.topic(), message.partition()
    if error is None:
        return False
    if topic is not None and number is not None:
        partition = Partition(topic, number)
        if error.code() == KafkaError._PARTITION_EOF:
            taken.ended.append((partition, message.offset() or 0))
        else:
            taken.errors.append((partition, error))
    return True
