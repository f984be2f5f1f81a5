"""Sends records to a topic one by one, and counts those that Kafka has taken."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from riverrun.errors import BrokerError, InputError
from riverrun.kafka import admin
from riverrun.kafka.records import Record
from riverrun.partitions import Partition

# Java's hash of keys, so that topics are co-partitioned with those that other programs write.
SETTINGS = {
    "partitioner": "murmur2_random",
    "enable.idempotence": "true",
    "linger.ms": "20",
    "message.timeout.ms": "30000",
}
LAST_WORD = timedelta(seconds=35)


class Sender:
    """A producer for one topic. A partition given here holds for all records."""

    def __init__(self, client: Mapping[str, str], topic: str, partition: int | None = None) -> None:
        self.partitions = len(admin.describe(client, topic).partitions)
        self.topic, self.partition = topic, partition
        self.sent = self.delivered = 0
        self.last: dict[Partition, int] = {}
        """The offset of the last record of each partition that Kafka has taken."""
        self._failure: KafkaError | None = None
        settings: dict[str, Any] = {**SETTINGS, **client}
        self._producer = Producer(settings, logger=admin.quiet)

    def send(self, record: Record) -> None:
        fields = self._fields(record)
        self._producer.poll(0)
        while not self._taken(fields):
            self._producer.poll(0.1)
        self.sent += 1
        self._check()

    def done_with(self, line: int) -> None:
        """All of this line of the input was sent."""

    def pause_until(self, moment: float) -> None:
        """Wait for a moment of the monotonic clock, and hear of deliveries meanwhile."""
        while (left := moment - time.monotonic()) > 0:
            self._producer.poll(min(left, 0.2))

    def flush(self) -> None:
        left = self._producer.flush(LAST_WORD.total_seconds())
        self._check()
        if left:
            raise self._lost(f"{left} records were not confirmed")

    def _fields(self, record: Record) -> dict[str, Any]:
        partition = record.partition if self.partition is None else self.partition
        if partition is not None and partition >= self.partitions:
            raise InputError(
                f"topic {self.topic!r} has no partition {partition}", got=self._range()
            )
        if record.timestamp == 0:
            raise InputError(
                "the timestamp 0 cannot be sent",
                got="Kafka's client takes it for the present time",
                hint="leave it out for the present time; 1 is the first millisecond of 1970",
            )
        fields: dict[str, Any] = {
            "key": record.key,
            "value": record.value,
            "partition": partition,
            "timestamp": record.timestamp,
            "headers": list(record.headers.items()) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _taken(self, fields: Mapping[str, Any]) -> bool:
        try:
            self._producer.produce(self.topic, on_delivery=self._heard, **fields)
        except BufferError:
            return False
        except KafkaException as error:
            raise self._lost(error.args[0].str()) from error
        return True

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
            place, offset = Partition(self.topic, message.partition() or 0), message.offset()
            self.last[place] = max(offset or 0, self.last.get(place, 0))
        else:
            self._failure = self._failure or error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._lost(self._failure.str())

    def _lost(self, got: str) -> BrokerError:
        return BrokerError(
            "Kafka did not take a record",
            where=f"topic {self.topic!r}",
            got=got,
            hint=f"{self.delivered:,} records were taken; `riverrun status` tells whether it runs",
        )

    def _range(self) -> str:
        return f"partitions 0 to {self.partitions - 1}"
