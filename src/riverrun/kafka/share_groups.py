"""Share groups as an operator sees them: their settings, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from riverrun.errors import BrokerError
from riverrun.kafka import admin
from riverrun.kafka.cluster import Cluster
from riverrun.kafka.connection import error_text
from riverrun.kafka.requests import DESCRIBE, OFFSETS

UNKNOWN = {KafkaError.GROUP_ID_NOT_FOUND}


def settings(client: Mapping[str, str], group: str) -> dict[str, str]:
    """The values of a group's settings, the broker's defaults where it has none of its own."""
    asking = admin.connect(client)
    resource = ConfigResource(ResourceType.GROUP, group)
    try:
        found = asking.describe_configs([resource])[resource].result()
    except KafkaException as error:
        raise _refused(error, group, "is it one of Kafka 4.2 or later?") from error
    return {name: str(entry.value) for name, entry in found.items()}


def alter(client: Mapping[str, str], group: str, wanted: Mapping[str, str]) -> None:
    """Changes settings of a group, all or none."""
    asking = admin.connect(client)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    try:
        asking.incremental_alter_configs([resource])[resource].result()
    except KafkaException as error:
        told = ", ".join(f"{name}={value}" for name, value in wanted.items())
        raise _refused(error, group, f"it was asked for {told}") from error


def _refused(error: KafkaException, group: str, hint: str) -> BrokerError:
    where = f"settings of the group {group!r}"
    return BrokerError("Kafka refuses", where=where, got=error.args[0].str(), hint=hint)


@dataclass(frozen=True)
class SharePartition:
    """How far a group has come in a partition: what is before `start` is settled, and some after
    it. `behind` is what is not, with what is in hand; None if the broker does not tell."""

    number: int
    start: int | None
    behind: int | None


@dataclass(frozen=True)
class ShareGroup:
    """A group's members, and its progress in a topic."""

    state: str
    members: int
    partitions: tuple[SharePartition, ...]


def describe(client: Mapping[str, str], group: str, topic: str) -> ShareGroup | None:
    """None for a group that nobody has been a member of."""
    cluster = Cluster(client)
    try:
        led, node = cluster.led(topic), cluster.coordinator(group)
        [told] = cluster.ask(node, DESCRIBE, groups=[group], operations=False)["groups"]
        if told["error"] in UNKNOWN:
            return None
        _check(told, group)
        asked = [{"name": topic, "partitions": sorted(range(led.partitions))}]
        [found] = cluster.ask(node, OFFSETS, groups=[{"group": group, "topics": asked}])["groups"]
    finally:
        cluster.close()
    _check(found, group)
    members = [each for each in told["members"] if topic in (each["topics"] or ())]
    offsets = [each for of_topic in found["topics"] for each in of_topic["partitions"]]
    partitions = [
        SharePartition(each["number"], _known(each["start"]), _known(each["lag"]))
        for each in sorted(offsets, key=lambda each: int(each["number"]))
    ]
    return ShareGroup(told["state"], len(members), tuple(partitions))


def _check(told: Mapping[str, object], group: str) -> None:
    code = told["error"]
    assert isinstance(code, int)
    if code:
        got = told["message"] or error_text(code)
        raise BrokerError("Kafka refuses", where=f"group {group!r}", got=got)


def _known(number: int) -> int | None:
    return number if number >= 0 else None
