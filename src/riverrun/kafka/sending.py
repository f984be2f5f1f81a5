"""Handing records to a producer of Kafka, in columns of Arrow: `key`, `value`, and of streams
`timestamp` and perhaps `headers`. Its queue is bounded, and waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import repeat
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

AT_ONCE = 20_000
"""Records of a table that are handed over together."""


class Sending(ABC):
    """Records of one producer. They keep their order."""

    @abstractmethod
    def send(self, topic: str, rows: pa.Table) -> None:
        """Hands all rows over; where the producer refuses one, that is a KafkaException."""


class PublicSending(Sending):
    """By the functions of confluent_kafka."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    def send(self, topic: str, rows: pa.Table) -> None:
        if "timestamp" in rows.column_names:
            self._each(topic, rows)
        else:
            self._together(topic, rows)

    def _together(self, topic: str, rows: pa.Table) -> None:
        for start in range(0, rows.num_rows, AT_ONCE):
            waiting = rows.slice(start, AT_ONCE).select(["key", "value"]).to_pylist()
            while waiting:
                self.producer.produce_batch(topic, waiting)
                waiting = [message for message in waiting if _queue_full(message)]
                self.producer.poll(0.1 if waiting else 0)

    def _each(self, topic: str, rows: pa.Table) -> None:
        keys, values, times = (rows[name].to_pylist() for name in ("key", "value", "timestamp"))
        marks = rows["headers"].to_pylist() if "headers" in rows.column_names else repeat(None)
        for key, value, time, own in zip(keys, values, times, marks, strict=False):
            while True:
                try:
                    self.producer.produce(topic, value, key, timestamp=time, headers=own or None)
                    break
                except BufferError:
                    self.producer.poll(0.1)
        self.producer.poll(0)


def _queue_full(message: dict[str, Any]) -> bool:
    error: KafkaError | None = message.pop("_error", None)
    if error is not None and error.code() != KafkaError._QUEUE_FULL:
        raise KafkaException(error)
    return error is not None
