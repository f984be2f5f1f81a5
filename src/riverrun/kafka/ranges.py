"""Ranges of offsets, read as they were written: committed records only, whatever the cut.

A column of some thousand records is one `map` over a method of the client, and becomes Arrow at
once: what costs is Python's work per record, and records that have left the cache meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from riverrun.errors import BrokerError, RecordsGone
from riverrun.kafka import admin
from riverrun.kafka.records import columns_of
from riverrun.kafka.topics import OUTAGE, unreachable
from riverrun.partitions import Partition, Range

AT_ONCE = 20_000
AT_MOST = 0.01
"""Records that are taken from the client together, and seconds to wait until there are so many."""

MOST_BYTES = 384 << 20
PIECE_BYTES = 128 << 20
"""Keys and values that a group may hold, and of each piece of one that holds more."""

CONSUMER = {
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


@dataclass
class Reading:
    """A range being read: its records so far, and the offset up to which they are known."""

    end: int
    position: int
    headers: bool
    parts: list[pa.Table] = field(default_factory=list)
    bytes: int = 0

    def taken(self) -> pa.Table:
        """What was read since the last time."""
        parts, self.parts, self.bytes = self.parts, [], 0
        return pa.concat_tables(parts) if parts else _columns([], headers=self.headers)


class _TooLarge(Exception):
    """A group holds more than MOST_BYTES."""


class RangeReader:
    """A consumer that reads ranges of offsets. One lives as long as the worker process."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.brokers = client["bootstrap.servers"]
        self.consumer = Consumer({**client, **CONSUMER}, logger=admin.quiet)

    def read(
        self, groups: Iterable[Sequence[Range]], with_headers: frozenset[str] = frozenset()
    ) -> Iterator[dict[Partition, pa.Table]]:
        """The records of each group, which is of one topic. `with_headers` names topics.

        A group that is too large comes in pieces. Where they end follows from the records alone.
        """
        try:
            for group in groups:
                ranges = [each for each in group if each.start < each.end]
                try:
                    found = self._read(ranges, with_headers)
                except _TooLarge:
                    for each in ranges:
                        yield from self._pieces(each, with_headers)
                else:
                    yield found
        finally:
            self.consumer.unassign()

    def _pieces(
        self, whole: Range, with_headers: frozenset[str]
    ) -> Iterator[dict[Partition, pa.Table]]:
        partition, start, end = whole
        reading = Reading(end, start, partition.topic in with_headers)
        self.consumer.assign([TopicPartition(*partition, start)])
        left = {partition: reading}
        while left:
            self._consume(left, at_once=1)  # so that every record may be the last of a piece
            if reading.bytes >= PIECE_BYTES or not left:
                yield {partition: reading.taken()}

    def _read(self, group: list[Range], with_headers: frozenset[str]) -> dict[Partition, pa.Table]:
        readings = {
            partition: Reading(end, start, partition.topic in with_headers)
            for partition, start, end in group
        }
        self.consumer.assign([TopicPartition(*each.partition, each.start) for each in group])
        unfinished = dict(readings)
        while unfinished:
            self._consume(unfinished)
            if sum(each.bytes for each in readings.values()) > MOST_BYTES:
                raise _TooLarge
        return {partition: reading.taken() for partition, reading in readings.items()}

    def _consume(self, unfinished: dict[Partition, Reading], at_once: int = AT_ONCE) -> None:
        """Takes what comes next; waits for it, if brokers are away."""
        give_up_at = time.monotonic() + OUTAGE
        # consume() waits for as many as it is asked for: ask for no more than there are, and
        # not for long, as the marks of transactions count, and never come
        left = sum(each.end - each.position for each in unfinished.values())
        while not (messages := self.consumer.consume(min(at_once, left), AT_MOST)):
            if time.monotonic() > give_up_at:
                raise unreachable(self.brokers, f"no answer for {OUTAGE:.0f} s")
        self._take(messages, unfinished)

    def _take(self, messages: list[Message], unfinished: dict[Partition, Reading]) -> None:
        headers = any(each.headers for each in unfinished.values())
        good = messages
        if any(map(Message.error, messages)):
            good = [each for each in messages if not _ended(each, unfinished)]
        for partition, rows in _by_partition(good, _columns(good, headers=headers)):
            if reading := unfinished.get(partition):
                _extend(reading, rows)
        done = [each for each, reading in unfinished.items() if reading.position >= reading.end]
        for partition in done:
            del unfinished[partition]
        if done and unfinished:
            self.consumer.incremental_unassign([TopicPartition(*each) for each in done])


def _columns(messages: list[Message], *, headers: bool) -> pa.Table:
    count = len(messages)
    found = {
        "__value": list(map(Message.value, messages)),
        "__key": list(map(Message.key, messages)),
        "__timestamp": np.fromiter(
            map(itemgetter(1), map(Message.timestamp, messages)), np.int64, count
        ),
        "__offset": np.fromiter(map(Message.offset, messages), np.int64, count),
    }
    return columns_of(found, list(map(Message.headers, messages)) if headers else None)


def _by_partition(messages: list[Message], rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
    """Rows in runs of one partition, as they came."""
    if not messages:
        return
    numbers = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(messages)]
    for start, end in pairwise(cuts):
        yield _partition(messages[start]), rows.slice(start, end - start)


def _partition(message: Message) -> Partition:
    topic, number = message.topic(), message.partition()
    assert topic is not None and number is not None  # it was consumed
    return Partition(topic, number)


def _ended(message: Message, unfinished: Mapping[Partition, Reading]) -> bool:
    """Whether this is no record, but tells that there are no more."""
    error = message.error()
    if error is None:
        return False
    partition = _partition(message)
    reading = unfinished.get(partition)
    if error.code() != KafkaError._PARTITION_EOF:
        raise _lost(partition, reading, error)
    if reading:
        # nothing but control records can follow before the range's end
        reading.position = reading.end
    return True


def _extend(reading: Reading, rows: pa.Table) -> None:
    offsets = rows["__offset"].to_numpy()
    reading.position = max(reading.position, int(offsets[-1]) + 1)
    inside = rows.slice(0, int(np.searchsorted(offsets, reading.end)))
    reading.parts.append(inside)
    reading.bytes += sum(_bytes(inside[name]) for name in ("__value", "__key"))


def _bytes(column: pa.ChunkedArray) -> int:
    """Of the contents alone: where a group is cut must not depend on how it came."""
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _lost(partition: Partition, reading: Reading | None, error: KafkaError) -> Exception:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return RecordsGone(
            "records that were still to be read are gone",
            where=partition,
            got=f"offset {reading.position if reading else 'unknown'}: {error.str()}",
            hint='retention deleted them: start over with --fresh, or declare on_loss="skip"',
        )
    return BrokerError("Kafka reports an error", where=partition, got=error.str())
