"""Records that a queue writes itself: dead letters, and messages that are handed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from confluent_kafka import KafkaError, KafkaException, Producer

from riverrun.errors import BrokerError
from riverrun.kafka import admin
from riverrun.kafka.sender import SETTINGS

SOON = 0.1
"""Seconds between two looks for an answer."""
Headers = Sequence[tuple[str, bytes | None]]


class Sending:
    """A producer for any thread; it is made when it is first needed."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = client
        self._lock = Lock()
        self._producer: Producer | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        *,
        timestamp: int,
        headers: Headers = (),
    ) -> None:
        """Returns once the brokers have it."""
        answers: list[KafkaError | None] = []
        producer = self._made()
        try:
            producer.produce(
                topic, value, key, timestamp=timestamp, headers=list(headers) or None,
                on_delivery=lambda error, _message: answers.append(error),
            )  # fmt: skip
        except (KafkaException, BufferError) as error:
            raise _refused(topic, error) from error
        while not answers:
            producer.poll(SOON)
        if answers[0] is not None:
            raise _refused(topic, answers[0].str())

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(10)

    def _made(self) -> Producer:
        with self._lock:
            if self._producer is None:
                settings = {**SETTINGS, "linger.ms": "0", **self.client}
                self._producer = Producer(settings, logger=admin.quiet)
            return self._producer


def _refused(topic: str, got: object) -> BrokerError:
    return BrokerError(
        "Kafka did not take a record",
        where=f"topic {topic!r}",
        got=got,
        hint="the message stays in its queue",
    )
