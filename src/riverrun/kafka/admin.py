"""Kafka's admin calls: topics listed, created, deleted; a broker that is away is one clear error.

`client` is a mapping of librdkafka settings, as `riverrun.embedded.kafka.client` returns it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from riverrun.errors import BrokerError, ConfigError, NoTopic, TopicError
from riverrun.kafka.nodes import Node
from riverrun.kafka.refusals import refusal

PATIENCE = timedelta(seconds=5)
SETTLING = timedelta(seconds=30)
"""How long a busy broker may take for what it has accepted to be seen."""
TIMESTAMP_TYPE, APPEND_TIME = "message.timestamp.type", "LogAppendTime"
T = TypeVar("T")
PASSING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet what is committed
    KafkaError.KAFKA_STORAGE_ERROR,
}
"""What a partition says whose leader changes."""

# librdkafka writes each failed connection to the terminal; ours is the one clear error.
quiet = logging.getLogger("riverrun.librdkafka")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


@dataclass(frozen=True)
class Partition:
    """A partition's first offset, and the one after its last."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Topic:
    """A topic. `config` holds only what was set for it."""

    name: str
    partitions: tuple[Partition, ...]
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def span(self) -> int:
        """By offsets: compaction and transactions leave gaps, so it is an upper bound."""
        return sum(partition.end - partition.start for partition in self.partitions)


def connect(client: Mapping[str, str], *, patience: timedelta | None = None) -> AdminClient:
    """An admin client of brokers that answer."""
    return _connect(client, patience or PATIENCE)[0]


def cluster_id(client: Mapping[str, str], *, patience: timedelta = PATIENCE) -> str | None:
    """Which cluster answers."""
    return _connect(client, patience)[1].cluster_id


def topics(client: Mapping[str, str], *, internal: bool = False) -> list[Topic]:
    """All topics, by name; those of Kafka itself only when asked for."""
    give_up_at = time.monotonic() + _seconds()
    while True:
        admin, cluster = _connect(client, PATIENCE)
        found = [t for name, t in sorted(cluster.topics.items()) if internal or name[:2] != "__"]
        try:
            return _described(admin, found)
        except NoTopic:  # one was deleted in between: the others are still there
            if time.monotonic() > give_up_at:
                raise


def exists(client: Mapping[str, str], name: str) -> bool:
    return name in _connect(client, PATIENCE)[1].topics


def describe(client: Mapping[str, str], name: str) -> Topic:
    admin, cluster = _connect(client, PATIENCE)
    return _described(admin, [_existing(cluster, name)])[0]


def settings(client: Mapping[str, str], topic: str) -> dict[str, str]:
    """The values of a topic's settings, the broker's defaults where it has none of its own."""
    admin = connect(client)  # answers come only as long as it is there
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], request_timeout=_seconds())[resource]
    return {name: str(entry.value) for name, entry in _result(answer, topic).items()}


def group_offsets(client: Mapping[str, str], group: str) -> dict[tuple[str, int], int]:
    """Up to where a group has read, by topic and partition; nothing for one that is not known.

    It is asked by a consumer, which never joins the group: librdkafka ends the process if an admin
    client asks while the group's coordinator is not ready.
    """
    _, cluster = _connect(client, PATIENCE)
    places = [TopicPartition(name, p) for name, t in cluster.topics.items() for p in t.partitions]
    settings = {**client, "group.id": group, "enable.auto.commit": "false"}
    consumer = Consumer(settings, logger=quiet)
    try:
        found = consumer.committed(places, timeout=_seconds()) if places else []
    except KafkaException as error:
        raise _refused(error.args[0], group) from error
    finally:
        consumer.close()
    return {(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


def create_topic(
    client: Mapping[str, str],
    name: str,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic, and return once every client can see it."""
    admin = connect(client)
    new = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    try:
        made = admin.create_topics([new], request_timeout=_seconds())[name]
    except ValueError as error:  # too many partitions: librdkafka does not even ask
        raise BrokerError("Kafka refuses", where=f"topic {name!r}", got=error) from error
    _result(made, name)
    _wait(admin, lambda cluster: _led(cluster, name), f"topic {name!r} does not become visible")
    _wait_for_all(client, admin.list_topics(timeout=_seconds()), name)
    _offsets(admin, [TopicPartition(name, p) for p in range(partitions)], OffsetSpec.latest())


def add_partitions(client: Mapping[str, str], name: str, total: int) -> None:
    """Makes a topic's partitions this many."""
    admin = connect(client)
    _result(admin.create_partitions([NewPartitions(name, total)])[name], name)
    _wait(admin, lambda cluster: len(cluster.topics[name].partitions) == total, name)


def alter_topic(client: Mapping[str, str], name: str, settings: Mapping[str, str | None]) -> None:
    """Changes settings of a topic, all or none; None gives one back to the broker. Returns once
    they are seen."""
    admin = connect(client)
    set_to, given_back = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    entries = [
        ConfigEntry(key, value, incremental_operation=given_back if value is None else set_to)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    _result(admin.incremental_alter_configs([resource])[resource], name)
    wanted = {key: value for key, value in settings.items() if value is not None}
    give_up_at = time.monotonic() + SETTLING.total_seconds()
    while not wanted.items() <= _configs(admin, [name])[name].items():
        if time.monotonic() > give_up_at:
            raise BrokerError(f"the settings of {name!r} do not change", got=f"waited {SETTLING}")
        time.sleep(0.02)


def delete_topic(client: Mapping[str, str], name: str) -> None:
    """Delete a topic, and return once it is gone."""
    admin = connect(client)
    _result(admin.delete_topics([name], request_timeout=_seconds())[name], name)
    _wait(admin, lambda cluster: name not in cluster.topics, f"topic {name!r} does not go away")


def _connect(client: Mapping[str, str], patience: timedelta) -> tuple[AdminClient, ClusterMetadata]:
    causes: list[str] = []
    settings: dict[str, Any] = {**client, "error_cb": lambda error: causes.append(error.str())}
    try:
        admin = AdminClient(settings, logger=quiet)
    except KafkaException as error:
        raise ConfigError(
            "librdkafka refuses a setting", where="[kafka] in the settings", got=error.args[0].str()
        ) from error
    try:
        return admin, admin.list_topics(timeout=patience.total_seconds())
    except KafkaException as error:
        admin.poll(0)  # hears the causes
        raise refusal(client, causes, error.args[0].str()) from error


def _described(admin: AdminClient, found: Sequence[TopicMetadata]) -> list[Topic]:
    places = [TopicPartition(str(t.topic), p) for t in found for p in sorted(t.partitions)]
    names = list(dict.fromkeys(place.topic for place in places))
    starts = _offsets(admin, places, OffsetSpec.earliest())
    ends = _offsets(admin, places, OffsetSpec.latest())
    configs = _configs(admin, names)
    by_topic: dict[str, list[Partition]] = {name: [] for name in names}
    for place in places:
        at = (place.topic, place.partition)
        by_topic[place.topic].append(Partition(place.partition, starts[at], ends[at]))
    return [Topic(name, tuple(by_topic[name]), configs[name]) for name in names]


def _offsets(
    admin: AdminClient, places: list[TopicPartition], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    if not places:
        return {}
    try:
        found = patiently(lambda: list_offsets(admin, dict.fromkeys(places, spec)))
    except KafkaException as error:
        raise _refused(
            error.args[0], error.args[1] if error.args[1:] else places[0].topic
        ) from error
    return {(place.topic, place.partition): offset for place, offset in found.items()}


def list_offsets(
    admin: AdminClient, asked: Mapping[TopicPartition, OffsetSpec], **options: Any
) -> dict[TopicPartition, int]:
    """An error that passes, if a broker that has just started does not know one yet."""
    answers = admin.list_offsets(dict(asked), request_timeout=_seconds(), **options)
    found = {place: _answer(place, future).offset for place, future in answers.items()}
    if OFFSET_INVALID in found.values():  # librdkafka takes that for an answer
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return found


def _answer(place: TopicPartition, future: Future[T]) -> T:
    """An error says whose it is."""
    try:
        return future.result()
    except KafkaException as error:
        raise KafkaException(error.args[0], place.topic) from error


def patiently(call: Callable[[], T]) -> T:
    """Calls again while a partition that was just made has no leader yet."""
    give_up_at = time.monotonic() + _seconds()
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > give_up_at:
                raise
            time.sleep(0.05)


def _configs(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    answers = admin.describe_configs(resources, request_timeout=_seconds())
    return {
        resource.name: {
            entry.name: entry.value
            for entry in _result(answer, resource.name).values()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, answer in answers.items()
    }


def _existing(cluster: ClusterMetadata, name: str) -> TopicMetadata:
    if name not in cluster.topics:
        raise _missing(name)
    return cluster.topics[name]


def _led(cluster: ClusterMetadata, name: str) -> bool:
    """Whether every partition of the topic has a leader, so that it can be written and read."""
    topic = cluster.topics.get(name)
    return bool(topic and topic.partitions) and all(
        partition.leader >= 0 for partition in cluster.topics[name].partitions.values()
    )


def _wait_for_all(client: Mapping[str, str], cluster: ClusterMetadata, topic: str) -> None:
    """Of several brokers, one that has not heard of a topic yet would say that there is none. One
    that does not answer is not waited for."""
    if len(cluster.brokers) < 2:
        return
    give_up_at = time.monotonic() + _seconds()
    for broker in cluster.brokers.values():
        alone = {**client, "bootstrap.servers": str(Node(str(broker.host), broker.port))}
        with suppress(BrokerError):
            while not exists(alone, topic) and time.monotonic() < give_up_at:
                time.sleep(0.02)


def _wait(admin: AdminClient, until: Callable[[ClusterMetadata], bool], otherwise: str) -> None:
    give_up_at = time.monotonic() + SETTLING.total_seconds()
    while not until(admin.list_topics(timeout=_seconds())):
        if time.monotonic() > give_up_at:
            raise BrokerError(otherwise, got=f"waited {SETTLING}")
        time.sleep(0.02)


def _result(future: Future[T], topic: str) -> T:
    try:
        return future.result()
    except KafkaException as error:
        raise _refused(error.args[0], topic) from error


def _refused(error: KafkaError, topic: str) -> BrokerError | TopicError:
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return _missing(topic)
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicError(f"topic {topic!r} exists already", hint="`riverrun topics` lists them")
    return BrokerError("Kafka refuses", where=f"topic {topic!r}", got=error.str() or error.name())


def _missing(topic: str) -> NoTopic:
    return NoTopic(
        f"there is no topic {topic!r}",
        hint=f"`riverrun topics` lists them; `riverrun topics create {topic}` makes it",
    )


def _seconds() -> float:
    return PATIENCE.total_seconds()
