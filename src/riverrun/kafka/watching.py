"""Whether brokers answer, asked beside a running job, which waits for them without a word."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from riverrun.kafka import admin
from riverrun.kafka.topics import OUTAGE

EVERY = 2.0
"""Seconds between two questions, and for an answer."""
AT_LEAST = 2
"""Questions without an answer before it is told: one may be lost."""


class BrokerWatch:
    def __init__(self, client: Mapping[str, str]) -> None:
        self.client, self.over = client, threading.Event()
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._failed = 0
        self._away_since = 0.0

    def news(self) -> Iterator[str]:
        """What has changed since it was last asked for."""
        while not self._news.empty():
            yield self._news.get()

    def run(self) -> None:
        cluster = AdminClient({**self.client}, logger=admin.quiet)
        while not self.over.wait(EVERY):
            try:
                cluster.list_topics(timeout=EVERY)
            except KafkaException:
                self._missed()
                cluster = AdminClient({**self.client}, logger=admin.quiet)
            else:
                self._answered()

    def _missed(self) -> None:
        if not self._failed:
            self._away_since = time.monotonic()
        self._failed += 1
        if self._failed == AT_LEAST:
            where = self.client["bootstrap.servers"]
            self._news.put(
                f"warning: Kafka does not answer at {where}: the job waits for it, {OUTAGE:.0f} s "
                "at most"
            )

    def _answered(self) -> None:
        if self._failed >= AT_LEAST:
            away = time.monotonic() - self._away_since
            self._news.put(f"over: Kafka answers again, after {away:.0f} s")
        self._failed = 0


@contextmanager
def watched(client: Mapping[str, str]) -> Iterator[BrokerWatch]:
    found = BrokerWatch(client)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.over.set()
