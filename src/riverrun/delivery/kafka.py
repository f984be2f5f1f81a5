"""Delivery to Kafka, at least once: a record may come again after a crash, none is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Producer

from riverrun.connectors import admin
from riverrun.delivery.destination import Destination, Part, Rows
from riverrun.delivery.encode import records
from riverrun.errors import BrokerError
from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec
from riverrun.sinks import Topic

PRODUCER = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": "5",
    "batch.size": str(1 << 20),
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(256 << 10),
    "delivery.report.only.error": True,
}
AT_ONCE = 20_000


class KafkaAtLeastOnce(Destination):
    """Sends records, and waits until the brokers have them. After a crash some come again."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = client
        self.failed: list[str] = []
        self.producer = Producer(
            {**client, **PRODUCER, "on_delivery": self._report}, logger=admin.quiet
        )

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{message.topic()}: {error.str()}")

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        existing = {topic.name for topic in admin.topics(self.client)}
        for output in outputs:
            assert isinstance(output.sink, Topic)
            if output.sink.name not in existing:
                _create(output, output.sink, self.client)

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        for output, rows in found:
            self.send(output, rows, evaluator)
        self.flush()

    def send(self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> None:
        assert isinstance(output.sink, Topic)
        encoded = records(output, rows, evaluator)
        keys, values = encoded["key"].to_pylist(), encoded["value"].to_pylist()
        if output.table:
            self._send_batch(output.sink.name, keys, values)
        else:
            self._send_each(output.sink.name, keys, values, encoded["timestamp"].to_pylist())

    def _send_batch(self, topic: str, keys: list[str], values: list[str | None]) -> None:
        for start in range(0, len(keys), AT_ONCE):
            pairs = zip(keys[start : start + AT_ONCE], values[start : start + AT_ONCE], strict=True)
            waiting = [{"key": key, "value": value} for key, value in pairs]
            while waiting:
                self.producer.produce_batch(topic, waiting)
                waiting = [message for message in waiting if message.pop("_error", None)]
                self.producer.poll(0.1 if waiting else 0)

    def _send_each(
        self, topic: str, keys: list[str | None], values: list[str], timestamps: list[int]
    ) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            while True:
                try:
                    self.producer.produce(topic, value, key, timestamp=max(timestamp, 0))
                    break
                except BufferError:
                    self.producer.poll(0.1)
        self.producer.poll(0)

    def flush(self) -> None:
        """Waits until everything is with the broker."""
        left = self.producer.flush(60)
        if left or self.failed:
            causes = sorted(set(self.failed)) or [f"{left} records are not acknowledged after 60 s"]
            self.failed.clear()
            raise BrokerError("records could not be written to Kafka", got="; ".join(causes))


def _create(output: OutputSpec, sink: Topic, client: Mapping[str, str]) -> None:
    small = output.name == "dead" or output.name.endswith(".late")
    admin.create_topic(
        client,
        sink.name,
        partitions=sink.partitions or (1 if small else 4),
        config={"cleanup.policy": "compact"} if output.table else {},
    )
