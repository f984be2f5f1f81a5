"""A door for senders that do not wait: StatsD over UDP, as records of a topic.

Senders do not hear that something is lost, so it is counted: lines that cannot be read, datagrams
that the kernel dropped as its buffer was full, records that the own buffer had no room for, and
those that Kafka did not take.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from riverrun.config import Settings
from riverrun.embedded import kafka, ports
from riverrun.errors import ConfigError, PortError
from riverrun.kafka import admin
from riverrun.runtime.metrics import Sample
from riverrun.server.ingest.bodies import instant_of
from riverrun.server.ingest.sending import RECEIVED
from riverrun.server.ingest.statsd import record_of

LARGEST = 65_535
"""Bytes of a datagram."""
BUFFER = 8 << 20
"""Bytes that the kernel keeps for us, if it lets us."""
AT_ONCE = 200
"""Datagrams between two looks at what Kafka has answered."""
PATIENCE = 10.0
PRODUCER: dict[str, Any] = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": "50",
    "queue.buffering.max.messages": "200000",
    "message.timeout.ms": "120000",
}


@dataclass
class Lost:
    unreadable: int = 0
    """Lines."""
    kernel: int = 0
    """Datagrams, of one or more lines."""
    buffer: int = 0
    kafka: int = 0
    """Lines, as records."""


class UdpDoor:
    """Listens in a thread of its own, also while the server has much to do."""

    def __init__(self, settings: Settings, where: str, topic: str) -> None:
        client = kafka.client(settings)
        admin.describe(client, topic)  # an error if there is none
        self.topic, self.lost = topic, Lost()
        self.datagrams = self.lines = self.taken = 0
        self.socket = _listening(where)
        self.inode = os.fstat(self.socket.fileno()).st_ino
        self.address = _address(self.socket)
        self.producer = Producer({**client, **PRODUCER}, logger=admin.quiet)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="udp", daemon=True)

    def __enter__(self) -> UdpDoor:
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """What is still in the kernel's buffer is taken, what waits for Kafka is sent."""
        self.over.set()
        self.thread.join()
        self.producer.flush(PATIENCE)
        self.producer.purge()
        self.producer.flush(1)  # what is given up is counted
        self._look()
        self.socket.close()

    def facts(self) -> dict[str, Any]:
        self._look()
        return {
            "address": self.address, "topic": self.topic, "datagrams": self.datagrams,
            "lines": self.lines, "taken": self.taken, "waiting": len(self.producer),
            "lost": asdict(self.lost),
        }  # fmt: skip

    def samples(self) -> Iterator[Sample]:
        """For `/metrics`."""
        self._look()
        outcomes = {
            "taken": self.taken, "unreadable": self.lost.unreadable,
            "without room": self.lost.buffer, "not taken by Kafka": self.lost.kafka,
        }  # fmt: skip
        for outcome, count in outcomes.items():
            yield Sample("riverrun_server_udp_lines_total", (self.topic, outcome), count)
        dropped = "riverrun_server_udp_dropped_datagrams_total"
        yield Sample(dropped, (self.topic,), self.lost.kernel)

    def told(self) -> str:
        """In one line."""
        lost, line = self.lost, f"udp: {self.taken:,} of {self.lines:,} lines taken"
        causes = {
            "unreadable": lost.unreadable,
            "dropped by the kernel (datagrams)": lost.kernel,
            "without room": lost.buffer,
            "not taken by Kafka": lost.kafka,
        }
        told = [f"{count:,} {cause}" for cause, count in causes.items() if count]
        return f"{line}; lost: {', '.join(told) or 'none'}"

    def _listen(self) -> None:
        while True:
            for _ in range(AT_ONCE):
                try:
                    datagram = self.socket.recv(LARGEST)
                except TimeoutError:
                    if self.over.is_set():
                        return
                    break
                self._take(datagram, time.time_ns() // 1_000_000)
            self.producer.poll(0)

    def _take(self, datagram: bytes, received: int) -> None:
        self.datagrams += 1
        for line in datagram.decode(errors="replace").split("\n"):
            if not line.strip():
                continue
            self.lines += 1
            found = record_of(line.strip())
            if found is None or "\ufffd" in line:
                self.lost.unreadable += 1
            else:
                self._send({**found, "received": instant_of(received)}, received)

    def _send(self, record: dict[str, Any], received: int) -> None:
        value = json.dumps(record, ensure_ascii=False)
        try:
            self.producer.produce(
                self.topic, value, record["name"], timestamp=received,
                headers=[(RECEIVED, str(received))], on_delivery=self._heard,
            )  # fmt: skip
        except BufferError:
            self.lost.buffer += 1
        except KafkaException:
            self.lost.kafka += 1

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.taken += 1
        else:
            self.lost.kafka += 1

    def _look(self) -> None:
        self.lost.kernel = max(self.lost.kernel, dropped(self.inode))


def _listening(where: str) -> socket.socket:
    host, _, port = where.rpartition(":")
    host = host.strip("[]") or ports.LOOPBACK
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError("the UDP port cannot be read", got=where, hint="8125, or 0.0.0.0:8125")
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    try:
        found.bind((host, int(port)))
    except OSError as error:
        found.close()
        raise PortError(f"UDP port {port} cannot be used", got=error) from error
    found.settimeout(0.1)
    return found


def _address(socket: socket.socket) -> str:
    host, port = socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dropped(inode: int) -> int:
    """Datagrams for the socket that the kernel had no room for, where it tells."""
    for file in ("/proc/net/udp", "/proc/net/udp6"):
        try:
            with open(file) as lines:
                for line in lines:
                    words = line.split()
                    if len(words) > 12 and words[9] == str(inode):
                        return int(words[12])
        except OSError:
            continue
    return 0
