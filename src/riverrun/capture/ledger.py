"""What a capture has written, and how far it is: both in the same transaction of Kafka.

One producer at a time has a capture's transactional id: whoever takes it fences the one before, and
what that had not committed is gone. Then the ledger, a compacted topic, tells where to go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from riverrun.capture.catalog import Column
from riverrun.capture.envelopes import Out
from riverrun.errors import AlreadyRunning, BrokerError, TopicError
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
LARGEST = 64 << 20
"""Bytes of a record: a row may be large."""
PRODUCER: dict[str, Any] = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",  # as Java's
    "compression.type": "lz4",
    "linger.ms": "2",
    "batch.size": str(1 << 20),
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(256 << 10),
    "message.max.bytes": str(LARGEST),
    "transaction.timeout.ms": "600000",  # of the largest transaction of the source
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "1000",
}
ATTEMPT = 30.0
PATIENCE = 120.0
ANY = -1
"""Where the key belongs."""
CAPTURE, POSITION, OWNER, TABLE = "capture", "position", "owner", "table "

Stage = Literal["initial", "streaming"]


@dataclass(frozen=True)
class Held:
    """What the database keeps for this capture."""

    slot: str
    system: str
    """Which server it is, by the number that it was made with."""
    stage: Stage
    """`initial` until the first snapshot is complete: a slot of then is made anew."""


@dataclass(frozen=True)
class TableProgress:
    """How far a table is, and how it looked there."""

    oid: int
    topic: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    loaded: bool = False
    """Whether a snapshot was ever complete."""
    snapshots: int = 0
    """How many further ones are done."""
    reading: bool = False
    """Whether a further snapshot goes on."""
    after: tuple[str, ...] | None = None
    """The key up to which it has come, as text."""
    rows: int = 0
    expected: int | None = None

    @property
    def doing(self) -> Literal["snapshot", "streaming"]:
        return "streaming" if self.loaded and not self.reading else "snapshot"

    def with_(self, **changes: Any) -> TableProgress:
        return replace(self, **changes)


@dataclass
class Noted:
    """What the ledger holds."""

    held: Held | None = None
    lsn: int = 0
    owner: str | None = None
    """The process that was started last."""
    tables: dict[str, TableProgress] = field(default_factory=dict)

    def take(self, key: str, value: dict[str, Any]) -> None:
        if key == CAPTURE:
            self.held = Held(**value)
        elif key == POSITION:
            self.lsn = value["lsn"]
        elif key == OWNER:
            self.owner = value["process"]
        elif key.startswith(TABLE):
            self.tables[key.removeprefix(TABLE)] = _table(value)
        else:
            raise ValueError(f"the ledger has no {key!r}")


def _table(value: dict[str, Any]) -> TableProgress:
    columns = tuple(Column(**each) for each in value["columns"])
    after = None if value["after"] is None else tuple(value["after"])
    return TableProgress(
        **{**value, "columns": columns, "key": tuple(value["key"]), "after": after}
    )


def ledger_topic(name: str) -> str:
    return f"{name}.capture"


class Ledger:
    """The producer of a capture, and what it has noted."""

    def __init__(self, client: Mapping[str, str], name: str) -> None:
        self.client, self.topic = dict(client), ledger_topic(name)
        with suppress(TopicError):  # it exists
            admin.create_topic(self.client, self.topic, partitions=1, config=SETTINGS)
        own = {"transactional.id": f"riverrun.capture.{name}"}
        self.producer = Producer({**self.client, **PRODUCER, **own}, logger=admin.quiet)
        for _ in range(2):  # connected first: else its first try waits half a second
            self.producer.list_topics(self.topic, timeout=ATTEMPT)
        self.producer.init_transactions(ATTEMPT)
        self.noted = Noted()
        self._read()
        self.pending = 0
        self.open = False

    def claim(self, process: str, *, again: bool) -> None:
        """A process that was started writes until a later one is: it may have been frozen
        meanwhile, and would fence the other in turn."""
        if not again:
            self._note(OWNER, {"process": process})
            self.commit()
        elif self.noted.owner != process:
            raise AlreadyRunning(
                "another process captures the same database",
                where=self.topic,
                hint="`riverrun capture list` there shows it; this one ends",
            )

    def send(self, records: Iterable[Out]) -> None:
        if not self.open:
            self.producer.begin_transaction()
            self.open = True
        for record in records:
            self._send(record)

    def _send(self, out: Out) -> None:
        partition = ANY if out.partition is None else out.partition
        while True:
            try:
                self.producer.produce(out.topic, out.value, out.key, partition)
                break
            except BufferError:
                self.producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise _too_large(out) from error
                raise
        self.pending += 1
        if self.pending % 1000 == 0:
            self.producer.poll(0)

    def note_held(self, held: Held) -> None:
        self._note(CAPTURE, asdict(held))
        self.noted.held = held

    def note_position(self, lsn: int) -> None:
        self._note(POSITION, {"lsn": lsn})
        self.noted.lsn = lsn

    def note_table(self, table: str, progress: TableProgress) -> None:
        self._note(f"{TABLE}{table}", asdict(progress))
        self.noted.tables[table] = progress

    def _note(self, key: str, value: dict[str, Any]) -> None:
        self.send([Out(self.topic, key, json.dumps(value), 0)])

    def commit(self) -> None:
        """All that was sent and noted takes effect, or nothing."""
        give_up = time.monotonic() + PATIENCE
        while self.open:
            try:
                self.producer.commit_transaction(ATTEMPT)
                self.open, self.pending = False, 0
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > give_up:
                    raise

    def close(self) -> None:
        """What is not committed is given up at once, so that readers do not wait for it."""
        if self.open:
            with suppress(KafkaException):
                self.producer.abort_transaction(5)
            self.open = False

    def _read(self) -> None:
        topics, place = KafkaTopics(self.client, patience=ATTEMPT), Partition(self.topic, 0)
        end = topics.ends([place], committed=False)[place]
        give_up = time.monotonic() + ATTEMPT
        while topics.ends([place])[place] < end:
            if time.monotonic() > give_up:
                raise BrokerError("a transaction does not end", where=self.topic)
            time.sleep(0.02)
        start = topics.starts([place])[place]
        if start == end:
            return
        for read in RangeReader(self.client).read([[Range(place, start, end)]]):
            for each in (row for records in read.values() for row in records.to_pylist()):
                self.noted.take(each["__key"].decode(), json.loads(each["__value"]))


def _too_large(out: Out) -> TopicError:
    return TopicError(
        "a row is larger than a record can be",
        where=out.topic,
        got=f"{len(out.value or ''):,} characters, key {out.key}",
        hint=f"a record has at most {LARGEST:,} bytes: make the row smaller",
    )
