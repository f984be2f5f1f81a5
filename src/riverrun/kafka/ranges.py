"""Ranges of offsets, read as they were written: committed records only, whatever the cut."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from riverrun.errors import BrokerError, RecordsGone
from riverrun.kafka import admin
from riverrun.kafka.consuming import Consuming, PublicConsuming, Taken
from riverrun.kafka.direct_consuming import DirectConsuming
from riverrun.kafka.librdkafka import Way
from riverrun.kafka.records import HOLDING, bytes_of, no_records
from riverrun.kafka.topics import OUTAGE, KafkaTopics, unreachable
from riverrun.partitions import Partition, Range

AT_ONCE = 20_000
"""Records that are taken from the client together."""

MOST_BYTES = 384 << 20
PIECE_BYTES = 128 << 20
"""Bytes that a group may hold, and of each piece of one that holds more."""


@dataclass
class Reading:
    """A range being read: its records so far, and the offset up to which they are known."""

    end: int
    position: int
    parts: list[pa.Table] = field(default_factory=list)
    bytes: int = 0

    def add(self, rows: pa.Table) -> None:
        offsets = rows["__offset"].to_numpy()
        self.position = max(self.position, int(offsets[-1]) + 1)
        inside = rows.slice(0, int(np.searchsorted(offsets, self.end)))
        self.parts.append(inside)
        self.bytes += sum(bytes_of(inside[each]) for each in HOLDING if each in inside.column_names)

    def taken(self, *, headers: bool) -> pa.Table:
        """What was read since the last time."""
        parts, self.parts, self.bytes = self.parts, [], 0
        return pa.concat_tables(parts) if parts else no_records(headers=headers)


class _TooLarge(Exception):
    """A group holds more than MOST_BYTES."""


class RangeReader:
    """Reads ranges of offsets. A reader in the direct way lives as long as its process."""

    def __init__(self, client: Mapping[str, str], way: Way = "public") -> None:
        self.client, self.way = dict(client), way
        self.consumers: dict[bool, Consuming] = {}
        """The one that reads headers, and the one that does not."""

    def read(
        self, groups: Iterable[Sequence[Range]], with_headers: frozenset[str] = frozenset()
    ) -> Iterator[dict[Partition, pa.Table]]:
        """The records of each group, which is of one topic. `with_headers` names topics.

        A group that is too large comes in pieces. Where they end follows from the records alone.
        """
        try:
            for group in groups:
                given = [each for each in group if each.start < each.end]
                headers = any(each.partition.topic in with_headers for each in given)
                names = {each.partition.real: each.partition for each in given}
                ranges = [each._replace(partition=each.partition.real) for each in given]
                renamed = partial(_renamed, names)
                # not with a name for each, which would hold it while the next one is read
                yield from map(renamed, self._whole_or_pieces(ranges, headers=headers))
        finally:
            for consumer in self.consumers.values():
                consumer.assign({})

    def as_it_comes(self, whole: Range) -> Iterator[tuple[pa.Table, int]]:
        """The records of a range with their headers, each time those that are there, and the offset
        up to which all are known by then. It says nothing where they are cut."""
        reading = Reading(whole.end, whole.start)
        consumer = self.consumer(headers=True)
        consumer.assign({whole.partition: whole.start})
        left = {whole.partition: reading} if whole.start < whole.end else {}
        try:
            while left:
                self._take(consumer, left)
                yield reading.taken(headers=True), min(reading.position, whole.end)
        finally:
            consumer.assign({})

    def _whole_or_pieces(
        self, ranges: list[Range], *, headers: bool
    ) -> Iterator[dict[Partition, pa.Table]]:
        try:
            found = self._read(ranges, headers=headers)
        except _TooLarge:
            for each in ranges:
                yield from self._pieces(each, headers=headers)
        else:
            yield found

    def consumer(self, *, headers: bool) -> Consuming:
        """What records are taken from; it is kept."""
        if headers not in self.consumers:
            kind = DirectConsuming if self.way == "direct" else PublicConsuming
            self.consumers[headers] = kind(self.client, headers=headers)
        return self.consumers[headers]

    def _pieces(self, whole: Range, *, headers: bool) -> Iterator[dict[Partition, pa.Table]]:
        partition, start, end = whole
        reading = Reading(end, start)
        consumer = self.consumer(headers=headers)
        consumer.assign({partition: start})
        left = {partition: reading}
        while left:
            # one by one, so that every record may be the last of a piece
            self._take(consumer, left, at_once=1)
            if reading.bytes >= PIECE_BYTES or not left:
                yield {partition: reading.taken(headers=headers)}

    def _read(self, group: list[Range], *, headers: bool) -> dict[Partition, pa.Table]:
        readings = {partition: Reading(end, start) for partition, start, end in group}
        consumer = self.consumer(headers=headers)
        consumer.assign({each.partition: each.start for each in group})
        unfinished = dict(readings)
        while unfinished:
            self._take(consumer, unfinished)
            if sum(each.bytes for each in readings.values()) > MOST_BYTES:
                raise _TooLarge
        return {each: reading.taken(headers=headers) for each, reading in readings.items()}

    def _take(
        self, consumer: Consuming, unfinished: dict[Partition, Reading], at_once: int = AT_ONCE
    ) -> None:
        taken = self._next(consumer, unfinished, at_once)
        for partition, error in taken.errors:
            if partition in unfinished:
                raise _lost(partition, unfinished[partition], error)
        for partition, rows in taken.runs:
            if partition in unfinished:
                unfinished[partition].add(rows)
        for partition, offset in taken.ended:
            if partition in unfinished:
                unfinished[partition].position = max(unfinished[partition].position, offset)
        done = [each for each, reading in unfinished.items() if reading.position >= reading.end]
        for partition in done:
            del unfinished[partition]
        if done and unfinished:
            consumer.drop(done)

    def _next(
        self, consumer: Consuming, unfinished: Mapping[Partition, Reading], at_once: int
    ) -> Taken:
        """What comes next; waits for it, if brokers are away."""
        give_up_at = time.monotonic() + OUTAGE
        # a client waits for as many as it is asked for: ask for no more than there are, and
        # not for long, as the marks of transactions count, and never come
        left = sum(each.end - each.position for each in unfinished.values())
        while not (taken := consumer.take(min(at_once, left))):
            if time.monotonic() > give_up_at:
                raise self._silence(unfinished)
        return taken

    def _silence(self, unfinished: Mapping[Partition, Reading]) -> Exception:
        """Why nothing comes any more."""
        admin.connect(self.client)  # an error that says why, if nobody lets us in
        for partition, end in KafkaTopics(self.client).ends(unfinished).items():
            if end < unfinished[partition].end:
                return _cut_off(partition, unfinished[partition], end)
        return unreachable(self.client, f"no answer for {OUTAGE:.0f} s")


def _renamed(
    names: Mapping[Partition, Partition], found: Mapping[Partition, pa.Table]
) -> dict[Partition, pa.Table]:
    return {names[partition]: rows for partition, rows in found.items()}


def _cut_off(partition: Partition, reading: Reading, end: int) -> RecordsGone:
    return RecordsGone(
        "records that were still to be read are gone",
        where=partition,
        got=f"it ends at offset {end}, and had records up to {reading.end}",
        hint="a broker has lost what it had told to be safe: start over with --fresh",
    )


def _lost(partition: Partition, reading: Reading, error: KafkaError) -> Exception:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return RecordsGone(
            "records that were still to be read are gone",
            where=partition,
            got=f"offset {reading.position}: {error.str()}",
            hint='retention deleted them: start over with --fresh, or declare on_loss="skip"',
        )
    return BrokerError("Kafka reports an error", where=partition, got=error.str())
