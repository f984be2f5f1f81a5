"""What an application has still to read, partition by partition, as the cluster tells it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from riverrun.kafka import admin
from riverrun.kafka.lag import PERIOD
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, from_texts

PATIENCE = 5.0
"""Seconds to wait for the first unread records."""

FRESH = 120.0
"""Seconds after its last note that a job counts as stopped."""

NEAR = 0.8
"""The share of what is kept beyond which unread records are about to be deleted."""

ONE_RECORD = {
    "group.id": "riverrun-lag",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "queued.min.messages": "1",
    "fetch.message.max.bytes": str(64 << 10),
}


@dataclass(frozen=True)
class Retention:
    """How long, and up to which size, a topic keeps records; None: for ever."""

    seconds: float | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Backlog:
    """One partition. What is not known is None."""

    partition: Partition
    read: int
    """The offset of the next record to read."""
    start: int
    end: int
    behind_seconds: float | None
    """The age of the first unread record; 0 if there is none."""
    rate_in: float | None
    rate_out: float | None
    retention: Retention = Retention()

    @property
    def behind(self) -> int:
        return max(self.end - max(self.read, self.start), 0)

    @property
    def lost(self) -> int:
        """Records that were deleted before they were read."""
        return max(self.start - self.read, 0)

    @property
    def catch_up_seconds(self) -> float | None:
        """None: never, at these rates, or not known."""
        if self.behind == 0:
            return 0.0
        if self.rate_out is None or self.rate_in is None or self.rate_out <= self.rate_in:
            return None
        return self.behind / (self.rate_out - self.rate_in)

    @property
    def deleted_in_seconds(self) -> float | None:
        """When unread records will be deleted, if that is near."""
        if self.behind == 0:
            return None
        times = [self._by_age(), self._by_size()]
        return min((each for each in times if each is not None), default=None)

    def _by_age(self) -> float | None:
        limit, age = self.retention.seconds, self.behind_seconds
        if limit is None or age is None or age <= NEAR * limit:
            return None
        return max(limit - age, 0.0)

    def _by_size(self) -> float | None:
        """Once the oldest are being deleted, the log is at its limit: each record that comes
        drives one out."""
        full = self.retention.bytes is not None and self.start > 0
        ahead = max(self.read, self.start) - self.start
        if not full or not self.rate_in or ahead > (1 - NEAR) * (self.end - self.start):
            return None
        return ahead / self.rate_in


def backlogs(
    client: Mapping[str, str], group: str, noted: Mapping[str, Any] | None
) -> list[Backlog]:
    """All partitions that the group has read. `noted` is what its job says of itself."""
    committed = admin.group_offsets(client, group)
    existing = {topic.name for topic in admin.topics(client)}
    read = {Partition(*p): offset for p, offset in committed.items() if p[0] in existing}
    found, topics = sorted(read, key=str), KafkaTopics(client)
    starts, ends = topics.starts(found), topics.ends(found)
    waiting = {p: max(read[p], starts[p]) for p in found if max(read[p], starts[p]) < ends[p]}
    ages = _ages(client, waiting)
    retention = {topic: _retention(client, topic) for topic in sorted({p.topic for p in found})}
    came, went = _rates(topics, ends, noted)
    return [
        Backlog(
            each, read[each], starts[each], ends[each], ages.get(each) if each in waiting else 0.0,
            came.get(each), went.get(each), retention[each.topic],
        )
        for each in found
    ]  # fmt: skip


Rates = dict[Partition, float | None]


def _rates(
    topics: KafkaTopics, ends: Mapping[Partition, int], noted: Mapping[str, Any] | None
) -> tuple[Rates, Rates]:
    """Records per second in and out: as a running job counts them, else by records' timestamps."""
    known = from_texts(noted["partitions"]) if noted else {}
    if noted and time.time() - noted["at"] <= FRESH:
        came, went = ({n: p[rate] for n, p in known.items()} for rate in ("rate_in", "rate_out"))
        return came, went
    a_minute_ago = topics.at_time(ends, int((time.time() - PERIOD) * 1000))
    lately = {each: (end - a_minute_ago[each]) / PERIOD for each, end in ends.items()}
    return dict(lately), dict.fromkeys(known, 0.0)


def _ages(client: Mapping[str, str], places: Mapping[Partition, int]) -> dict[Partition, float]:
    """Seconds since the record at each place, or the first after it, was written."""
    if not places:
        return {}
    consumer = Consumer({**client, **ONE_RECORD}, logger=admin.quiet)
    left = set(places)
    found: dict[Partition, float] = {}
    try:
        consumer.assign([TopicPartition(*each, offset) for each, offset in places.items()])
        give_up_at = time.monotonic() + PATIENCE
        while left and time.monotonic() < give_up_at:
            message = consumer.poll(0.1)
            if message is None:
                continue
            partition = Partition(str(message.topic()), int(message.partition() or 0))
            if partition not in left:
                continue
            left.discard(partition)
            consumer.incremental_unassign([TopicPartition(*partition)])
            at = message.timestamp()[1]
            if message.error() is None and at > 0:
                found[partition] = max(time.time() - at / 1000, 0.0)
    finally:
        consumer.close()
    return found


def _retention(client: Mapping[str, str], topic: str) -> Retention:
    found = admin.settings(client, topic)
    if "delete" not in found["cleanup.policy"]:
        return Retention()
    milliseconds, size = int(found["retention.ms"]), int(found["retention.bytes"])
    return Retention(
        milliseconds / 1000 if milliseconds >= 0 else None, size if size >= 0 else None
    )
