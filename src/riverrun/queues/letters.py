"""Dead letters of a queue: in the form that those of applications have, and for the same commands.

Kafka drops a record that was delivered too often. Ours are written before that.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import numpy as np

from riverrun.errors import TopicError
from riverrun.kafka import admin
from riverrun.kafka.batches import Stored
from riverrun.kafka.dead import EPOCH, FOR_GROUP
from riverrun.kafka.records import text_or_base64
from riverrun.queues.deliveries import Delivery
from riverrun.queues.sending import Sending
from riverrun.sinks.kafka.fitting import PARTS, Limits, cut

DECODE = "decode"
"""What a step is called in letters of records that could not be read: as those of applications."""
LAST = datetime.max.replace(tzinfo=UTC)


class Letters:
    """Writes to the topic GROUP.dead, which is made when it is first needed."""

    def __init__(self, sending: Sending, group: str) -> None:
        self.client, self.group, self.topic = sending.client, group, f"{group}.dead"
        self.limits = Limits(self.client)
        self._sending, self._lock, self._there = sending, Lock(), False

    def write(self, delivery: Delivery, step: str, cause: str) -> None:
        """Returns once the brokers have it. An error if they do not take it: nothing is lost, since
        the record itself is not settled."""
        self._make()
        facts = letter(delivery, self.group, step, cause)
        text, room = json.dumps(facts, ensure_ascii=False), self.limits.room(self.topic)
        key = delivery.record.key
        if len(text.encode(errors="replace")) + len(key or b"") > room:
            text = json.dumps(cut(facts, room // PARTS), ensure_ascii=False)
            key = (key or b"")[: room // PARTS]
        [time] = self.limits.times(self.topic, np.array([delivery.record.timestamp])).tolist()
        self._sending.send(self.topic, text.encode(errors="replace"), key, timestamp=time)

    def _make(self) -> None:
        with self._lock:
            if self._there:
                return
            try:
                admin.describe(self.client, self.topic)
            except TopicError:
                self._create()
            self._there = True

    def _create(self) -> None:
        try:
            admin.create_topic(self.client, self.topic)
        except TopicError:
            admin.describe(self.client, self.topic)  # another worker was quicker


def letter(delivery: Delivery, group: str, step: str, cause: str) -> dict[str, Any]:
    record = delivery.record
    headers = [
        {"name": name, **_texts("value", value)}
        for name, value in record.headers
        if name != FOR_GROUP
    ]
    return {
        "topic": delivery.partition.topic,
        "partition": delivery.partition.number,
        "offset": record.offset,
        "timestamp": moment(record).isoformat().replace("+00:00", "Z"),
        "step": step,
        "cause": cause,
        **_texts("key", record.key),
        **_texts("value", record.value),
        "headers": headers or None,
        "row": None,
        "cut": None,
        "group": group,
        "deliveries": delivery.number,
    }


def moment(record: Stored) -> datetime:
    """A record's timestamp, or the last moment that Python knows."""
    try:
        return EPOCH + timedelta(milliseconds=record.timestamp)
    except OverflowError:
        return LAST


def _texts(name: str, content: bytes | None) -> dict[str, str | None]:
    return dict(zip((name, f"{name}_base64"), text_or_base64(content), strict=True))
