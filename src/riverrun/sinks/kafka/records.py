"""Records for Kafka, and delivery at least once: a record may come again, none is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Producer

from riverrun.delivery.encode import records
from riverrun.errors import BrokerError, TopicError
from riverrun.kafka import admin
from riverrun.kafka.compaction import DAY, POLICY, table_settings
from riverrun.kafka.sending import PublicSending, Sending
from riverrun.outputs import (
    Destination,
    Evaluator,
    OutputSpec,
    Owner,
    Part,
    Renewal,
    Rows,
    Standing,
)
from riverrun.sinks.kafka.compacted import Compacted
from riverrun.sinks.kafka.dead import NAME as DEAD
from riverrun.sinks.kafka.fitting import SURE, Limits, fitted, longest_row
from riverrun.sinks.kafka.renewal import TopicRenewal
from riverrun.sinks.kafka.sink import Topic

PRODUCER: Mapping[str, Any] = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    "linger.ms": "5",
    "batch.size": str(1 << 20),
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(256 << 10),
    "delivery.report.only.error": True,
}

Encoded = list[tuple[OutputSpec, pa.Table]]


class KafkaTopicsWritten(Destination):
    """What both guarantees share: the topics that are written."""

    def __init__(self, client: Mapping[str, str], compaction_lag: int = DAY) -> None:
        """Milliseconds that records of tables stay in topics that are made here."""
        self.client, self.compaction_lag = client, compaction_lag
        self.limits = Limits(client)

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        existing = {topic.name: topic for topic in admin.topics(self.client)}
        for output in outputs:
            assert isinstance(output.sink, Topic)
            found = existing.get(output.sink.name)
            if found is None:
                _create(output, output.sink, self.client, self.compaction_lag)
            else:
                _check(output, output.sink, self.client, len(found.partitions))

    def refused(
        self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator
    ) -> Mapping[int, str]:
        """Rows whose record is larger than the topic takes."""
        assert isinstance(output.sink, Topic)
        topic = output.sink.name
        longest = 6 * longest_row(rows)  # escaped in JSON, a byte may become six
        if longest <= SURE or longest <= self.limits.room(topic):
            return {}
        found = enumerate(_sizes(records(output, rows, evaluator)))
        most = self.limits.room(topic)
        cause = f"its record has more than the {most:,} bytes that the topic {topic} takes"
        return {number: cause for number, size in found if size > most}

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Tasks do it all."""

    def standing(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Standing] | None:
        """Of a stream a topic keeps what retention leaves: there is nothing to compare."""
        return self._standing(output, owner) if output.table else None

    @contextmanager
    def _standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        """What is in the topic now, once nothing of it is in the middle of a transaction; what is
        written later tells of itself by its progress."""
        topic = Compacted(self.client, output)
        ranges = topic.settled()
        yield Standing(self.last_batch(owner), topic.rows(ranges))

    @contextmanager
    def renewal(self, output: OutputSpec, owner: Owner) -> Iterator[Renewal]:
        with duckdb.connect() as own:
            yield TopicRenewal(self.client, output, owner, self.last_batch, own)

    def last_batch(self, owner: Owner) -> int | None:
        """The last batch of which anything is written; None where that is not noted."""
        return None


class KafkaAtLeastOnce(KafkaTopicsWritten):
    """Sends records, and waits until the brokers have them. After a crash some come again."""

    def __init__(self, client: Mapping[str, str], compaction_lag: int = DAY) -> None:
        super().__init__(client, compaction_lag)
        self.failed: list[str] = []
        settings = {**client, **PRODUCER, "on_delivery": self._report}
        self.producer = Producer(settings, logger=admin.quiet)

    def _report(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{message.topic()}: {error.str()}")

    def take_over(self, application: str, run: int) -> None:
        """At least once: an earlier run that still writes does no harm."""

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        send(PublicSending(self.producer), encoded(found, evaluator, self.limits), self.limits)
        left = self.producer.flush(60)
        if left or self.failed:
            causes = sorted(set(self.failed)) or [f"{left} records are not acknowledged after 60 s"]
            self.failed.clear()
            raise BrokerError("records could not be written to Kafka", got="; ".join(causes))


def encoded(found: Sequence[Rows], evaluator: Evaluator, limits: Limits) -> Encoded:
    return [(output, _records(output, rows, evaluator, limits)) for output, rows in found]


def _records(output: OutputSpec, rows: pa.Table, evaluator: Evaluator, limits: Limits) -> pa.Table:
    """A letter must not fail itself. Of any other output, what is too large was set aside before;
    of tables, where rows cannot be, it stops the job."""
    made = records(output, rows, evaluator)
    if output.name != DEAD:
        return made
    assert isinstance(output.sink, Topic)
    sizes = _sizes(made)
    if max(sizes, default=0) <= SURE or max(sizes) <= limits.room(output.sink.name):
        return made
    return records(output, fitted(rows, sizes, limits.room(output.sink.name)), evaluator)


def _sizes(made: pa.Table) -> list[int]:
    lengths = (pc.fill_null(pc.binary_length(made[name]), 0) for name in ("key", "value"))
    found: list[int] = pc.add(*lengths).to_pylist()
    return found


def send(sending: Sending, outputs: Encoded, limits: Limits) -> None:
    """Hands all records to the producer."""
    for output, rows in outputs:
        assert isinstance(output.sink, Topic)
        topic, columns = output.sink.name, rows
        if output.table:
            columns = rows.select(["key", "value"])
        else:
            times = limits.times(topic, rows["timestamp"].to_numpy())
            place = rows.column_names.index("timestamp")
            columns = rows.set_column(place, "timestamp", pa.array(times))
        sending.send(topic, columns)


def _create(output: OutputSpec, sink: Topic, client: Mapping[str, str], lag: int) -> None:
    small = output.name == DEAD or output.name.endswith(".late")
    admin.create_topic(
        client,
        sink.name,
        partitions=sink.partitions or (1 if small else 4),
        config=table_settings(lag) if output.table else {},
    )


def _check(output: OutputSpec, sink: Topic, client: Mapping[str, str], partitions: int) -> None:
    """A table needs compaction, which keeps each key's last record; a stream would lose rows."""
    policy = admin.settings(client, sink.name)[POLICY]
    wanted = why = None
    if output.table and "compact" not in policy:
        wanted, why = f"{POLICY}=compact", "a table is upserts, and old rows of a key can go"
    elif not output.table and "compact" in policy:
        wanted, why = f"{POLICY}=delete", "compaction would remove rows of a stream"
    elif sink.partitions not in (None, partitions):
        raise TopicError(
            f"the topic {sink.name!r} has {partitions} partitions, not {sink.partitions}",
            hint="say partitions=… as it is, or write to another topic",
        )
    if wanted:
        raise TopicError(
            f"the topic {sink.name!r} cannot take the output {output.name!r}",
            got=f"{POLICY} is {policy}",
            hint=f"set {wanted}: {why}; `riverrun topics alter {sink.name} {wanted}`,"
            " or write to another topic",
        )
