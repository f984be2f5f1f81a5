"""The brokers of a cluster: which leads a partition, which coordinates a group, and asking them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaError

from riverrun.errors import BrokerError, NoTopic
from riverrun.kafka.connection import Connection, ConnectionGone, error_text
from riverrun.kafka.nodes import Node, bootstrap
from riverrun.kafka.requests import COORDINATOR, EVERY, METADATA, Request

NO_ID = UUID(int=0)
GROUP_KEY = 0


@dataclass(frozen=True)
class Led:
    """A topic's identity, and the leader of each of its partitions that has one."""

    id: UUID
    leaders: Mapping[int, Node]
    partitions: int


class Cluster:
    """Connections to brokers, made when they are first needed. For one thread."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.client = client
        self.connections: dict[Node, Connection] = {}

    def ask(self, node: Node, request: Request, **values: Any) -> dict[str, Any]:
        try:
            return self._connected(node).ask(request, **values)
        except ConnectionGone:
            self.connections.pop(node, None)
            raise

    def close(self) -> None:
        for each in self.connections.values():
            each.close()
        self.connections.clear()

    def led(self, topic: str) -> Led:
        found = self._anyone(
            METADATA, topics=[{"id": NO_ID, "name": topic}], create=False, operations=False
        )
        brokers = {each["id"]: Node(each["host"], each["port"]) for each in found["brokers"]}
        [told] = found["topics"]
        if told["error"] == KafkaError.UNKNOWN_TOPIC_OR_PART:
            hint = f"create it: riverrun topics create {topic}"
            raise NoTopic(f"there is no topic {topic!r}", hint=hint)
        if told["error"]:
            raise BrokerError("Kafka refuses", where=topic, got=error_text(told["error"]))
        leaders = {each["number"]: brokers.get(each["leader"]) for each in told["partitions"]}
        known = {number: node for number, node in leaders.items() if node is not None}
        return Led(told["id"], known, len(leaders))

    def coordinator(self, group: str) -> Node:
        [found] = self._anyone(COORDINATOR, kind=GROUP_KEY, keys=[group])["found"]
        if found["error"]:
            raise ConnectionGone(
                f"the group {group!r} has no coordinator", got=error_text(found["error"])
            )
        return Node(found["host"], found["port"])

    def _anyone(self, request: Request, **values: Any) -> dict[str, Any]:
        """The answer of a broker that we know already, or of one of the settings."""
        failed: ConnectionGone | None = None
        for node in dict.fromkeys([*self.connections, *bootstrap(self.client)]):
            try:
                return self.ask(node, request, **values)
            except ConnectionGone as error:
                failed = error
        raise failed or BrokerError("no broker is configured")

    def _connected(self, node: Node) -> Connection:
        if node not in self.connections:
            made = Connection(self.client, *node)
            try:
                made.check(EVERY)
            except BrokerError:
                with suppress(OSError):
                    made.close()
                raise
            self.connections[node] = made
        return self.connections[node]
