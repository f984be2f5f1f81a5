"""Being a member of a share group: heartbeats, and the partitions that they bring."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

from confluent_kafka import KafkaError

from riverrun.errors import BrokerError
from riverrun.kafka.cluster import Cluster
from riverrun.kafka.connection import ConnectionGone, error_text
from riverrun.kafka.nodes import Node
from riverrun.kafka.requests import HEARTBEAT

SOON = 0.1
"""Seconds between heartbeats while there is nothing to read: an assignment takes two or three."""
LEFT = -1
MOVED = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
FORGOTTEN = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH}


class Membership:
    """One member of a group, which reads one topic."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self.cluster, self.group, self.topic = cluster, group, topic
        self.id = str(uuid4())
        self.epoch = 0
        self.topic_id: UUID | None = None
        self.partitions: frozenset[int] = frozenset()
        self._coordinator: Node | None = None
        self._next_at = 0.0

    def beat(self) -> None:
        """A heartbeat, if it is time for one."""
        if time.monotonic() < self._next_at:
            return
        joining = self.epoch == 0
        answer = self._ask(topics=[self.topic] if joining else None)
        if answer["error"] in MOVED:
            self._coordinator = None
            raise ConnectionGone("the group is being moved", got=error_text(answer["error"]))
        if answer["error"] in FORGOTTEN:
            self.epoch, self.partitions, self._next_at = 0, frozenset(), 0.0
            return
        if answer["error"]:
            raise self._refused(answer)
        self.epoch = answer["epoch"]
        if answer["assignment"] is not None:
            self._assigned(answer["assignment"]["topics"])
        rest = answer["interval"] / 1000 if self.partitions else SOON
        self._next_at = time.monotonic() + rest

    def leave(self) -> None:
        if self.epoch > 0:
            self.epoch = LEFT
            self._ask(topics=None)

    def _ask(self, topics: list[str] | None) -> dict[str, Any]:
        self._coordinator = self._coordinator or self.cluster.coordinator(self.group)
        try:
            return self.cluster.ask(
                self._coordinator, HEARTBEAT,
                group=self.group, member=self.id, epoch=self.epoch, rack=None, topics=topics,
            )  # fmt: skip
        except ConnectionGone:
            self._coordinator = None
            raise

    def _assigned(self, topics: list[dict[str, Any]]) -> None:
        if not topics:
            self.partitions = frozenset()
            return
        [only] = topics  # one topic is subscribed to
        self.topic_id, self.partitions = only["id"], frozenset(only["partitions"])

    def _refused(self, answer: dict[str, Any]) -> BrokerError:
        return BrokerError(
            f"Kafka does not take us into the group {self.group!r}",
            got=answer["message"] or error_text(answer["error"]),
            hint="the group of a queue is no application's name, nor an ordinary consumer group",
        )
