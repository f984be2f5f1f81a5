"""Real Kafka servers that a test starts, kills and starts again: on loopback, on free ports.

The embedded broker is one node in plain text. Here are more nodes, or more listeners; jars, Java
and class archive are its own.
"""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from riverrun.config import Settings
from riverrun.embedded import class_archive, kafka_jvm, ports
from riverrun.embedded.kafka_files import LOGGING, PROPERTIES
from riverrun.kafka import admin

LOOPBACK = ports.LOOPBACK
PATIENCE = 60.0
SMALL = ("-Xms64m", "-Xmx256m")
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "log.cleaner.enable": "false",
}
"""One that was killed is given up soon."""
COPIED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.max.retries": "1",
}


@dataclass
class Node:
    """One server."""

    number: int
    folder: Path
    port: int
    jvm: kafka_jvm.Jvm
    settings: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    def write(self, cluster: str) -> None:
        """Its files. A controller has to know which features there are; of any other node they are
        written here, as the tool would do it, which takes a JVM of its own."""
        data = self.folder / "data"
        data.mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(
            LOGGING.format(log=self.folder / "server.log")
        )
        settings = {**self.settings, "log.dirs": str(data)}
        lines = (f"{name}={value}" for name, value in settings.items())
        self.properties.write_text("\n".join(lines))
        if "controller" in self.settings["process.roles"]:
            tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self.properties)]
            options = class_archive.options(self.jvm.archive)
            subprocess.run(self.jvm.command(options, tool), check=True, capture_output=True)
            return
        meta = {"version": 1, "cluster.id": cluster, "node.id": self.number, "directory.id": _id()}
        text = "\n".join(f"{name}={value}" for name, value in meta.items())
        (data / "meta.properties").write_text(text)

    def start(self) -> None:
        options = [
            *SMALL,
            *class_archive.options(self.jvm.archive),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
        ]
        command = self.jvm.command(options, ["kafka.Kafka", str(self.properties)])
        with (self.folder / "console.log").open("ab") as console:
            self.process = subprocess.Popen(command, stdout=console, stderr=console)

    def kill(self) -> None:
        """As kill -9 does."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """As an operator does: leaders go elsewhere first."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE)  # else it is killed with the others
            self.process = None

    def told(self) -> str:
        files = (self.folder / name for name in ("server.log", "console.log"))
        return "\n".join(file.read_text()[-3000:] for file in files if file.exists())


@dataclass
class Servers:
    """Nodes of one cluster."""

    nodes: dict[int, Node] = field(default_factory=dict)

    @property
    def client(self) -> dict[str, str]:
        """Of the listener in plain text, which every node has."""
        where = (f"{LOOPBACK}:{node.port}" for node in self.nodes.values())
        return {"bootstrap.servers": ",".join(where)}

    def until_up(self) -> None:
        self.until(lambda told: len(told.brokers) == len(self.nodes))

    def until(self, holds) -> ClusterMetadata:
        give_up_at = time.monotonic() + PATIENCE
        while True:
            cluster = AdminClient(self.client, logger=admin.quiet)
            with suppress(KafkaException):
                if holds(found := cluster.list_topics(timeout=2)):
                    return found
            gone = [n for n in self.nodes.values() if n.process and n.process.poll() is not None]
            assert not gone, gone[0].told()
            assert time.monotonic() < give_up_at, [n.told() for n in self.nodes.values()]
            time.sleep(0.1)

    def leader(self, topic: str, partition: int = 0) -> int:
        found = self.until(lambda told: _led(told, topic))
        return found.topics[topic].partitions[partition].leader

    def until_copied(self, topic: str) -> None:
        """Every node has all of the topic."""
        count = len(self.nodes)
        self.until(
            lambda told: (
                _led(told, topic)
                and all(len(p.isrs) == count for p in told.topics[topic].partitions.values())
            )
        )


def _led(told: ClusterMetadata, topic: str) -> bool:
    found = told.topics.get(topic)
    return found is not None and all(p.leader in told.brokers for p in found.partitions.values())


@contextmanager
def servers(
    settings: Settings,
    folder: Path,
    *,
    count: int = 1,
    voters: int = 1,
    listeners: Sequence[tuple[str, str, int]] = (),
    more: Mapping[str, str] | None = None,
) -> Iterator[Servers]:
    """Nodes that run; the first `voters` of them are controllers, too. Every listener is a name, a
    protocol and a port. They end with the block, also when it fails."""
    jvm, cluster, found = kafka_jvm.find(settings), _id(), Servers()
    own = [(ports.any_free(), ports.any_free()) for _ in range(count)]
    quorum = ",".join(f"{n + 1}@{LOOPBACK}:{own[n][1]}" for n in range(voters))
    for number, (port, controller) in enumerate(own, 1):
        doors = [("CLIENT", "PLAINTEXT", port), *listeners]
        behind = [("CONTROLLER", "PLAINTEXT", controller)] if number <= voters else []
        written = {
            **_usual(),
            **QUICK,
            **(COPIED if count > 1 else {}),
            "process.roles": "broker,controller" if behind else "broker",
            "node.id": str(number),
            "listeners": _addresses([*doors, *behind]),
            "advertised.listeners": _addresses(doors),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol, _ in [*doors, ("CONTROLLER", "PLAINTEXT", 0)]
            ),
            "inter.broker.listener.name": "CLIENT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": quorum,
            **(more or {}),
        }
        node = Node(number, folder / f"node-{number}", port, jvm, written)
        node.write(cluster)
        found.nodes[number] = node
    try:
        for node in found.nodes.values():
            node.start()
        found.until_up()
        yield found
    finally:
        for node in found.nodes.values():
            node.kill()


def _usual() -> dict[str, str]:
    """What the embedded broker has, too."""
    lines = (line.partition("=") for line in PROPERTIES.splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines if value and "{" not in value}


def _addresses(doors: Sequence[tuple[str, str, int]]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, _, port in doors)


def _protocols(doors: Sequence[tuple[str, str, int]]) -> str:
    return ",".join(f"{name}:{protocol}" for name, protocol, _ in doors)


def _id() -> str:
    first, *rest = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
