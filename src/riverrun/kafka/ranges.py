"""Ranges of offsets, read as they were written: committed records only, whatever the cut."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from riverrun.errors import BrokerError, RecordsGone
from riverrun.kafka import admin
from riverrun.kafka.records import Columns
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
    columns: Columns
    bytes: int = 0


class _TooLarge(Exception):
    """A group holds more than MOST_BYTES."""


class RangeReader:
    """A consumer that reads ranges of offsets. One lives as long as the worker process."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.brokers = client["bootstrap.servers"]
        self.consumer = Consumer({**client, **CONSUMER}, logger=admin.quiet)

    def read(
        self, groups: Iterable[Sequence[Range]], with_headers: frozenset[str] = frozenset()
    ) -> Iterator[dict[Partition, Columns]]:
        """The records of each group. `with_headers` names topics.

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
    ) -> Iterator[dict[Partition, Columns]]:
        partition, start, end = whole
        headers = partition.topic in with_headers
        reading = Reading(end, start, Columns.empty(headers=headers))
        self.consumer.assign([TopicPartition(*partition, start)])
        left = {partition: reading}
        while left:
            self._consume(left, at_once=1)  # so that every record may be the last of a piece
            if reading.bytes >= PIECE_BYTES or not left:
                yield {partition: reading.columns}
                reading.columns, reading.bytes = Columns.empty(headers=headers), 0

    def _read(self, group: list[Range], with_headers: frozenset[str]) -> dict[Partition, Columns]:
        readings = {
            partition: Reading(end, start, Columns.empty(headers=partition.topic in with_headers))
            for partition, start, end in group
        }
        self.consumer.assign([TopicPartition(*each.partition, each.start) for each in group])
        unfinished = dict(readings)
        while unfinished:
            self._consume(unfinished)
            if sum(each.bytes for each in readings.values()) > MOST_BYTES:
                raise _TooLarge
        return {partition: reading.columns for partition, reading in readings.items()}

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
        for place, group in groupby(messages, key=lambda m: (m.topic(), m.partition())):
            partition = Partition(*place)
            if partition not in unfinished:
                continue
            reading = unfinished[partition]
            _extend(partition, reading, list(group))
            if reading.position >= reading.end:
                del unfinished[partition]
                if unfinished:
                    self.consumer.incremental_unassign([TopicPartition(*partition)])


def _extend(partition: Partition, reading: Reading, messages: list[Message]) -> None:
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # nothing but control records can follow before the range's end
            reading.position = reading.end
        else:
            raise _lost(partition, reading, error)
    offsets: list[Any] = [message.offset() for message in good]
    if offsets:
        reading.position = max(reading.position, offsets[-1] + 1)
    inside = good[: bisect_left(offsets, reading.end)]
    columns = reading.columns
    columns.offsets += offsets[: len(inside)]
    values, keys = [m.value() for m in inside], [m.key() for m in inside]
    reading.bytes += sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
    columns.values += values
    columns.keys += keys
    columns.timestamps += [m.timestamp()[1] for m in inside]
    if columns.headers is not None:
        columns.headers += [m.headers() for m in inside]


def _lost(partition: Partition, reading: Reading, error: KafkaError) -> Exception:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return RecordsGone(
            "records that were still to be read are gone",
            where=partition,
            got=f"offset {reading.position}: {error.str()}",
            hint='retention deleted them: start over with --fresh, or declare on_loss="skip"',
        )
    return BrokerError("Kafka reports an error", where=partition, got=error.str())
