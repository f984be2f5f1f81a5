"""Sends the lines of a file so that what was interrupted can go on: each line once.

Records go in transactions, each with the number of its last line, which is kept as the offset of a
consumer group that belongs to the file and the topic.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from riverrun.kafka import admin
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender

AT_ONCE = 10_000
"""Lines of a transaction."""
WITHIN = 5.0
"""Seconds that one is open for at most."""
PATIENCE = 30.0


class ResumedSender(Sender):
    def __init__(
        self, client: Mapping[str, str], topic: str, partition: int | None, *, file: str
    ) -> None:
        of = hashlib.sha256(f"{file}\0{topic}".encode()).hexdigest()[:16]
        self.group = f"riverrun.produce.{of}"
        super().__init__({**client, "transactional.id": self.group}, topic, partition)
        self._group = Consumer({**client, "group.id": self.group}, logger=admin.quiet)
        self._open_since: float | None = None
        self._lines = 0
        try:
            self._producer.init_transactions(PATIENCE)
            [found] = self._group.committed([TopicPartition(topic, 0)], PATIENCE)
        except KafkaException as error:
            raise self._lost(error.args[0].str()) from error
        self.line = self.first = max(found.offset, 0)
        """The last line that is sent for good, now and at the start."""

    def send(self, record: Record) -> None:
        if self._open_since is None:
            self._producer.begin_transaction()
            self._open_since = time.monotonic()
        super().send(record)

    def done_with(self, line: int) -> None:
        self.line = line
        self._lines += 1
        opened = self._open_since
        if self._lines >= AT_ONCE or (opened and time.monotonic() - opened > WITHIN):
            self.flush()

    def flush(self) -> None:
        """All that was sent is there for good, and will not be sent again."""
        if self._open_since is None:
            return
        try:
            place = TopicPartition(self.topic, 0, self.line)
            self._producer.send_offsets_to_transaction(
                [place], self._group.consumer_group_metadata(), PATIENCE
            )
            self._producer.commit_transaction(PATIENCE)
        except KafkaException as error:
            raise self._lost(error.args[0].str()) from error
        self._open_since, self._lines = None, 0
        self._check()
