"""A compacted topic brought in line: a record for each key that the log has otherwise.

Writers cannot be made to wait. So records are sent in a transaction, which ends well only if nobody
has written one of their keys since the topic was looked at: what comes later is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from riverrun.delivery.encode import records
from riverrun.errors import BrokerError
from riverrun.kafka import admin
from riverrun.outputs import Evaluator, OutputSpec, Owner, Renewal, Swapped
from riverrun.partitions import Partition, Range
from riverrun.sinks.kafka.compacted import Compacted

PRODUCER = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "transaction.timeout.ms": "20000",  # readers wait for one whose writer is gone
}
CONSUMER = {
    "group.id": "riverrun",
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
}
ATTEMPT = 15.0
BYTES = pa.schema({"key": pa.large_binary(), "value": pa.large_binary()})

Sent = dict[bytes, tuple[Partition, int]]
"""Where the record of each key is."""


class TopicRenewal(Renewal):
    def __init__(
        self,
        client: Mapping[str, str],
        output: OutputSpec,
        owner: Owner,
        last_batch: Callable[[Owner], int | None],
        own: duckdb.DuckDBPyConnection,
    ) -> None:
        self.client, self.output, self.owner = client, output, owner
        self.topic, self.last_batch, self.own = Compacted(client, output), last_batch, own
        self.ranges: list[Range] = []
        self.told = 0
        own.execute("CREATE TABLE told (key BLOB, value BLOB, place BIGINT)")

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        self.told += 1
        # DuckDB's own cast of text to bytes reads what follows a backslash as a number
        made = records(self.output, rows, evaluator).select(BYTES.names).cast(BYTES)
        self.own.register("made", made)
        self.own.execute(f"INSERT INTO told SELECT key, value, {self.told} FROM made")
        self.own.unregister("made")

    @contextmanager
    def held(self) -> Iterator[int | None]:
        """Nobody waits: the swap finds out whether somebody has written."""
        self.ranges = self.topic.settled()
        yield self.last_batch(self.owner)

    def swap(self, tick: int) -> Swapped | None:
        found = self._differences()
        if found and not self._written({key: wanted for key, wanted, _ in found}):
            return None
        return Swapped(
            added=sum(stands is None for *_, stands in found),
            changed=sum(None not in (wanted, stands) for _, wanted, stands in found),
            removed=sum(wanted is None for _, wanted, _ in found),
        )

    def _differences(self) -> list[tuple[bytes, bytes | None, bytes | None]]:
        """Key, value by the log, value that stands."""
        self.own.execute("CREATE OR REPLACE TABLE stood (key BLOB, value BLOB)")
        for each in self.topic.records(self.ranges):
            self.own.register("stands", each)
            self.own.execute("INSERT INTO stood SELECT __key, __value FROM stands")
            self.own.unregister("stands")
        last = "SELECT key, arg_max_null(value, place) AS value FROM told GROUP BY key"
        return self.own.execute(
            "SELECT coalesce(w.key, f.key), w.value, f.value FROM"
            f" (SELECT * FROM ({last}) WHERE value IS NOT NULL) w FULL JOIN stood f"
            " ON w.key = f.key WHERE w.value IS DISTINCT FROM f.value"
        ).fetchall()

    def _written(self, values: dict[bytes, bytes | None]) -> bool:
        """Whether they are: a transaction that is given up leaves nothing that readers see."""
        own = {"transactional.id": f"{self.owner.application}.rebuild"}
        producer = Producer({**self.client, **PRODUCER, **own}, logger=admin.quiet)
        producer.init_transactions(ATTEMPT)
        producer.begin_transaction()
        sent = self._send(producer, values)
        if not sent or self._overtaken(sent):
            producer.abort_transaction(ATTEMPT)
            return False
        producer.commit_transaction(ATTEMPT)
        return True

    def _send(self, producer: Producer, values: dict[bytes, bytes | None]) -> Sent:
        sent: Sent = {}

        def taken(error: Any, message: Any) -> None:
            if error is not None:
                raise BrokerError("Kafka does not take a record", got=error.str())
            sent[message.key()] = Partition(message.topic(), message.partition()), message.offset()

        for key, value in values.items():
            producer.produce(self.topic.topic, value, key, on_delivery=taken)
            producer.poll(0)
        producer.flush(ATTEMPT)
        return sent if len(sent) == len(values) else {}

    def _overtaken(self, sent: Sent) -> bool:
        """Whether somebody has written one of the keys after the look, and before us."""
        last: dict[Partition, int] = {}
        for partition, offset in sent.values():
            last[partition] = max(offset, last.get(partition, 0))
        consumer = Consumer({**self.client, **CONSUMER}, logger=admin.quiet)
        begin = {each.partition: each.end for each in self.ranges}
        consumer.assign([TopicPartition(*each, begin[each]) for each in last])
        try:
            while last:
                message = consumer.poll(ATTEMPT)
                if message is None or message.error():
                    return True  # who knows
                place = Partition(message.topic() or "", message.partition() or 0)
                offset, key = message.offset() or 0, message.key()
                if isinstance(key, bytes) and key in sent and sent[key][1] > offset:
                    return True
                if offset >= last.get(place, offset + 1):
                    del last[place]
        finally:
            consumer.close()
        return False
