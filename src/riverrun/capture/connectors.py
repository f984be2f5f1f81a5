"""The settings of Debezium's connectors: what makes their topics those that we read.

No two kinds of database are alike; what they share stands first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from riverrun.capture.address import slot_of
from riverrun.capture.notes import CHUNK
from riverrun.capture.places import Address, Kind
from riverrun.capture.topics import KEPT

CLASSES: dict[Kind, str] = {
    "postgresql": "io.debezium.connector.postgresql.PostgresConnector",
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
}
JSON = "org.apache.kafka.connect.json.JsonConverter"
SHARED = {
    "tasks.max": "1",
    "exactly.once.support": "required",
    "snapshot.mode": "initial",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",  # else that a table was emptied is not told
    "extended.headers.enabled": "false",
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    # without it an idle database is never told what was read, and its log grows
    "heartbeat.interval.ms": "5000",
    "poll.interval.ms": "50",
    "retriable.restart.connector.wait.ms": "2000",
    "notification.enabled.channels": "sink",
    "signal.enabled.channels": "source",
    "incremental.snapshot.chunk.size": str(CHUNK),
}
POSTGRESQL = {
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    # the server may hold the slot of a worker that was killed for a while
    "slot.max.retries": "60",
    "slot.retry.delay.ms": "1000",
    "status.update.interval.ms": "1000",
    "interval.handling.mode": "string",
    # Large values are not in the log where a change leaves them as they were, and who reads a
    # topic has no row to take them from when the key has changed: the database is asked.
    "post.processors": "reselect",
    "reselect.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
    "reselect.reselect.unavailable.values": "true",
    "reselect.reselect.null.values": "false",
    "reselect.reselect.use.event.key": "true",  # which need not be the primary one
}
MARIADB = {"include.schema.changes": "false"}


@dataclass(frozen=True)
class Connector:
    """What a capture by Debezium is made of. Its own name is that of the capture."""

    name: str
    address: Address
    tables: tuple[str, ...]
    """With their schema, or of MariaDB and MySQL with their database."""

    @property
    def slot(self) -> str:
        return slot_of(self.name)

    @property
    def signals(self) -> str:
        """The table by which a further snapshot is asked for: what is written there is in the log,
        so it is neither lost nor read too early."""
        return f"{self.tables[0].partition('.')[0]}.{self.slot[:55]}_signals"

    @property
    def notes(self) -> str:
        """The topic of what Debezium tells of its snapshots."""
        return f"{self.name}.notifications"

    @property
    def inner_topics(self) -> tuple[str, ...]:
        """What nobody reads once the capture is removed."""
        found = (self.notes, self.history, f"__debezium-heartbeat.{self.name}")
        return (*found, self.topic(self.signals))

    @property
    def history(self) -> str:
        """The topic in which Debezium keeps how tables of MariaDB and MySQL have changed."""
        return f"{self.name}.schema-history"

    def topic(self, table: str) -> str:
        return f"{self.name}.{table}"

    def settings(self, password: str, brokers: str) -> dict[str, str]:
        """What Connect is sent. `password` may be a reference that Connect resolves."""
        at = self.address
        named = {
            "connector.class": CLASSES[at.kind],
            "topic.prefix": self.name,
            "database.hostname": at.host,
            "database.port": str(at.port),
            "database.user": at.user,
            "database.password": password,
            "table.include.list": escaped(self.tables),
            "notification.sink.topic.name": self.notes,
            "signal.data.collection": self.signals,
        }
        own = self._postgresql() if at.kind == "postgresql" else self._mariadb(brokers)
        return {**SHARED, **named, **own, **self._topics()}

    def _topics(self) -> dict[str, str]:
        """That a table was emptied is a record without a key, told once: a compacted topic would
        refuse it, and in several partitions it would stand beside no order."""
        made = {"replication.factor": "-1", "partitions": "1", **KEPT}
        return {f"topic.creation.default.{name}": value for name, value in made.items()}

    def _postgresql(self) -> dict[str, str]:
        return {
            **POSTGRESQL,
            **{f"database.{name}": value for name, value in self.address.options},
            "database.dbname": self.address.database,
            "slot.name": self.slot,
            "publication.name": self.slot,
        }

    def _mariadb(self, brokers: str) -> dict[str, str]:
        """Also of MySQL. Such a server tells the readers of its log apart by a number."""
        number = int.from_bytes(sha256(self.name.encode()).digest()[:4]) % (2**31) + 1
        return {
            **MARIADB,
            "database.server.id": str(number),
            "database.include.list": escaped([self.address.database]),
            "schema.history.internal.kafka.bootstrap.servers": brokers,
            "schema.history.internal.kafka.topic": self.history,
        }


def escaped(names: Sequence[str]) -> str:
    """Debezium and Connect read lists of names as patterns."""
    return ",".join(re.sub(r"([^A-Za-z0-9_])", r"\\\1", name) for name in names)
