"""What the brokers allow this client to do with a topic."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from riverrun.kafka import admin

SECONDS = 10.0


def allowed(client: Mapping[str, str], topic: str) -> frozenset[str] | None:
    """The words of what is allowed, such as READ and WRITE; None if the brokers do not say."""
    connected = admin.connect(client)
    asked = connected.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=SECONDS
    )
    try:
        found = asked[topic].result().authorized_operations
    except KafkaException:
        return None
    return None if found is None else frozenset(AclOperation(each).name for each in found)
