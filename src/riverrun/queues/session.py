"""What one broker is asked for: records of the partitions that it leads, and acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from confluent_kafka import KafkaError

from riverrun.kafka.batches import Batch, Stored, batches
from riverrun.kafka.cluster import Cluster
from riverrun.kafka.connection import ConnectionGone, error_text
from riverrun.kafka.nodes import Node
from riverrun.kafka.requests import ACKNOWLEDGE, FETCH, GAP, RECORD_LIMIT, RENEW
from riverrun.partitions import Partition
from riverrun.queues.deliveries import Delivery
from riverrun.queues.membership import Membership

LARGEST = 1 << 20
"""Bytes that the broker reads for an answer; the first batch comes in any case."""
CLOSED = -1
KEPT = 16
"""Batches whose records are remembered: those of a large one are asked for one by one."""
LOST_SESSION = {
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    KafkaError.SHARE_SESSION_LIMIT_REACHED,
}


class Acknowledged(NamedTuple):
    """A record, and what is to become of it."""

    partition: int
    offset: int
    kind: int


@dataclass
class Answer:
    """What a broker said: what was taken, and which partitions have refused what they were told,
    with Kafka's code, 0 for those that have not."""

    deliveries: list[Delivery] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    moved: bool = False
    """Some partition is led by another broker."""


class Session:
    """A share session with one broker. Its requests are numbered: each comes after the last."""

    def __init__(self, cluster: Cluster, node: Node, membership: Membership) -> None:
        self.cluster, self.node, self.membership = cluster, node, membership
        self.epoch = 0
        self.known: frozenset[int] = frozenset()
        self.gaps: list[Acknowledged] = []
        """Offsets that were locked for us, but hold no record: marks of transactions, mostly."""
        self._read: dict[tuple[int, int], dict[int, Stored]] = {}

    @property
    def open(self) -> bool:
        return self.epoch > 0

    def fetch(
        self, partitions: frozenset[int], wanted: int, wait: float, told: list[Acknowledged]
    ) -> Answer:
        """Up to so many records, within so many seconds. Only an open session can be told what
        becomes of records."""
        told = [*told, *self.gaps] if self.open else []
        added = partitions - self.known if self.open else partitions
        begun_at = time.monotonic()
        answer = self._ask(
            FETCH, waiting=wait, wait=round(wait * 1000), min_bytes=1, max_bytes=LARGEST,
            max_records=wanted, together=wanted, mode=RECORD_LIMIT, renewing=False,
            topics=self._topics(told, added), forgotten=self._forgotten(partitions),
        )  # fmt: skip
        self.known = partitions
        if told:
            self.gaps.clear()
        found = Answer()
        for each in _partitions(answer):
            found.refused[each["number"]] = each["refused"]
            found.moved = found.moved or bool(each["error"])
            found.deliveries += self._deliveries(each, begun_at, answer["lock"] / 1000)
        return found

    def acknowledge(self, told: list[Acknowledged]) -> Answer:
        renewing = any(each.kind == RENEW for each in told)
        answer = self._ask(ACKNOWLEDGE, renewing=renewing, topics=self._topics(told, ()))
        return Answer(refused={each["number"]: each["error"] for each in _partitions(answer)})

    def close(self) -> None:
        """Whatever is still in hand is released by the broker."""
        if self.open:
            self.epoch = CLOSED
            self._ask(ACKNOWLEDGE, renewing=False, topics=[])

    def reset(self) -> None:
        """The broker has forgotten the session, or the connection is gone."""
        self.epoch, self.known = 0, frozenset()
        self.gaps.clear()

    def _ask(self, request: Any, **values: Any) -> dict[str, Any]:
        own = {"group": self.membership.group, "member": self.membership.id, "epoch": self.epoch}
        try:
            answer = self.cluster.ask(self.node, request, **own, **values)
        except ConnectionGone:
            self.reset()
            raise
        if answer["error"] in LOST_SESSION:
            self.reset()
            raise ConnectionGone("the session is gone", got=error_text(answer["error"]))
        if answer["error"]:
            raise ConnectionGone(
                "Kafka refuses", got=answer["message"] or error_text(answer["error"])
            )
        self.epoch += 1
        return answer

    def _topics(self, told: Iterable[Acknowledged], added: Iterable[int]) -> list[dict[str, Any]]:
        listed: dict[int, list[dict[str, Any]]] = {number: [] for number in added}
        for number, of_one in groupby(sorted(told), key=lambda each: each.partition):
            listed[number] = [
                {"first": each.offset, "last": each.offset, "kinds": [each.kind]} for each in of_one
            ]
        named = [{"number": number, "acknowledged": each} for number, each in listed.items()]
        return [{"id": self._id, "partitions": named}] if named else []

    def _forgotten(self, partitions: frozenset[int]) -> list[dict[str, Any]]:
        gone = sorted(self.known - partitions) if self.open else []
        return [{"id": self._id, "partitions": gone}] if gone else []

    @property
    def _id(self) -> UUID:
        assert self.membership.topic_id is not None
        return self.membership.topic_id

    def _deliveries(self, each: Mapping[str, Any], at: float, lock: float) -> list[Delivery]:
        """Of the batches that come along, only what is locked for us."""
        number, found = each["number"], []
        partition = Partition(self.membership.topic, number)
        records = self._records(number, each["records"])
        for run in each["acquired"]:
            for offset in range(run["first"], run["last"] + 1):
                record = next((batch[offset] for batch in records if offset in batch), None)
                if record is not None:
                    found.append(Delivery(partition, record, run["deliveries"], at, lock))
                else:
                    self.gaps.append(Acknowledged(number, offset, GAP))
        return found

    def _records(self, number: int, content: memoryview | None) -> list[dict[int, Stored]]:
        """By offset, of each batch."""
        return [] if content is None else [self._of_batch(number, b) for b in batches(content)]

    def _of_batch(self, number: int, batch: Batch) -> dict[int, Stored]:
        key = (number, batch.base)
        if key not in self._read:
            while len(self._read) >= KEPT:
                del self._read[next(iter(self._read))]
            self._read[key] = {record.offset: record for record in batch.records()}
        return self._read[key]


def _partitions(answer: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    return (each for topic in answer["topics"] for each in topic["partitions"])
