"""What a cluster tells of topics: their identity, their partitions, and offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from riverrun.errors import BrokerError, NoTopic
from riverrun.kafka import admin
from riverrun.partitions import Partition, real

OUTAGE = 120.0
"""Seconds that a running job waits for brokers that are away."""

AWAY = {
    *admin.PASSING,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._NOENT,  # no leaders are known
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
}
T = TypeVar("T")


@dataclass(frozen=True)
class TopicFacts:
    id: str
    partitions: int


class KafkaTopics:
    """What the driver asks of a cluster: topics, their identity, and offsets."""

    def __init__(self, client: Mapping[str, str], *, patience: float = 5.0) -> None:
        self.client, self.patience = client, patience
        self.brokers = client["bootstrap.servers"]
        self.admin = AdminClient({**client}, logger=admin.quiet)

    def facts(self, topics: list[str]) -> dict[str, TopicFacts]:
        known = {topic: real(topic) for topic in topics}
        facts, missing = {}, []
        for name in sorted(set(known.values())):
            try:
                facts[name] = self._ask(name, partial(self._fact, name))
            except NoTopic:
                missing.append(name)
        if missing:
            raise self._missing(missing)
        return {topic: facts[name] for topic, name in known.items()}

    def _missing(self, names: list[str]) -> NoTopic:
        """All of them, so that nobody has to start again for each."""
        listed = ", ".join(map(repr, names))
        create = "; ".join(f"riverrun topics create {name} --partitions 4" for name in names)
        one = len(names) == 1
        return NoTopic(
            f"there is no topic {listed}" if one else f"there are no topics {listed}",
            got=f"brokers {self.brokers}",
            hint=f"create {'it' if one else 'them'}: {create}",
        )

    def _fact(self, topic: str) -> TopicFacts:
        asked = TopicCollection([topic])
        found = self.admin.describe_topics(asked, request_timeout=10)[topic].result()
        return TopicFacts(str(found.topic_id), len(found.partitions))

    def _ask(self, topic: str, call: Callable[[], T]) -> T:
        """Asks again while brokers are away. A client keeps to the leaders that it knew before they
        went, and is refused for ever: so each attempt has a new one."""
        give_up_at = time.monotonic() + self.patience
        while True:
            try:
                return call()
            except KafkaException as error:
                away = error.args[0].code() in AWAY
                if not away or time.monotonic() > give_up_at:
                    raise self._translated(error, topic) from error
            time.sleep(0.1)
            self.admin = AdminClient({**self.client}, logger=admin.quiet)

    def _translated(self, error: KafkaException, topic: str) -> Exception:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return self._missing([topic])
        return unreachable(self.client, error)

    def ends(
        self, partitions: Iterable[Partition], *, committed: bool = True
    ) -> dict[Partition, int]:
        """The last stable offset of each partition: what is committed and can be read. Or else
        where the next record will be."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.latest()), committed=committed)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))

    def at_time(self, partitions: Iterable[Partition], milliseconds: int) -> dict[Partition, int]:
        """Where a time begins, as brokers know it: no record of it is before that. The end where
        there is none; see `first_at` for the record itself."""
        if milliseconds <= 0:  # some numbers below have a meaning of their own
            return self.starts(partitions)
        found = self._offsets(dict.fromkeys(partitions, OffsetSpec.for_timestamp(milliseconds)))
        missing = [partition for partition, offset in found.items() if offset < 0]
        # asked for a time of deleted records whose file is still there, a broker knows of none
        later = [each for each, at in self._newest(missing).items() if at >= milliseconds]
        return found | self.ends(missing) | self.starts(later)

    def _newest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The highest timestamp that each partition has."""
        asked = {TopicPartition(*each.real): OffsetSpec.max_timestamp() for each in partitions}
        if not asked:
            return {}
        found = self._ask(
            next(iter(asked)).topic,
            lambda: {
                Partition(place.topic, place.partition): answer.result().timestamp
                for place, answer in self.admin.list_offsets(asked, request_timeout=10).items()
            },
        )
        return {each: found[each.real] for each in partitions}

    def _offsets(
        self, specs: Mapping[Partition, OffsetSpec], *, committed: bool = True
    ) -> dict[Partition, int]:
        if not specs:
            return {}
        asked = {TopicPartition(*partition.real): spec for partition, spec in specs.items()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = self._ask(
            real(next(iter(specs)).topic),
            lambda: _known(admin.list_offsets(self.admin, asked, isolation_level=level)),
        )
        offsets = {Partition(p.topic, p.partition): offset for p, offset in found.items()}
        return {partition: offsets[partition.real] for partition in specs}


def _known(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """A broker that has just come back may answer without an offset, and without an error."""
    if OFFSET_INVALID in offsets.values():
        raise KafkaException(KafkaError(KafkaError._NOENT))
    return offsets


def unreachable(client: Mapping[str, str], error: object) -> BrokerError:
    """The cause, if a new client is told of one: of a password that was changed, or a certificate
    that has expired, one that waits for brokers hears nothing."""
    try:
        admin.connect(client)
    except BrokerError as refused:
        return refused
    return BrokerError(
        "Kafka does not answer",
        got=f"{client['bootstrap.servers']}: {error}",
        hint="is it running? see `riverrun status`",
    )
