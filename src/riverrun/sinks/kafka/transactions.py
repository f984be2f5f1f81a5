"""Delivery to Kafka, exactly once: a task's records and its progress in one transaction.

A write task has a transactional id of its own. Whoever takes it first fences everybody who had it
before; then the progress record tells whether the part is there already. A producer that has
written the batch before is still the only one (else its transaction fails), and need not ask.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property

from confluent_kafka import KafkaError, KafkaException, Producer

from riverrun.config import Calls
from riverrun.errors import BrokerError, TopicError
from riverrun.kafka import admin, direct_sending
from riverrun.kafka.compaction import DAY
from riverrun.kafka.librdkafka import way_of
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.sending import PublicSending, Sending
from riverrun.kafka.topics import KafkaTopics
from riverrun.outputs import Evaluator, Owner, Part, Rows
from riverrun.partitions import Partition, Range
from riverrun.sinks.kafka.compacted import settled
from riverrun.sinks.kafka.records import PRODUCER, Encoded, KafkaTopicsWritten, encoded, send
from riverrun.sinks.progress import (
    Compared,
    Progress,
    compared,
    done,
    progress_of,
    refuse_if_fenced,
)

PARTITIONS = 16
"""Of the progress topic. Tasks share them; each reads only its own."""
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
RUN = "run"
TAIL = 64
"""Records of a progress partition that are looked at first: a task's last one is mostly there."""
TRANSACTIONAL = {
    "transaction.timeout.ms": "120000",  # then the broker gives up one whose writer is gone
    "reconnect.backoff.ms": "10",  # a new producer waits half of it before it connects again
}
REFUSED = (
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
"""What a broker says of records that it will never take."""
ATTEMPT = 30.0
PATIENCE = 180.0
PAUSE = 0.2
"""Seconds: for one call to a broker, until a task fails, between two attempts."""


@dataclass(frozen=True)
class Writer:
    """A producer that has fenced all others of its transactional id, and what it found."""

    producer: Producer
    sending: Sending
    stored: Progress | None = None


@dataclass
class Holding:
    """A transactional id in this process: since the batch before, or since it was taken."""

    checkpoint: str
    batch: int
    """The last one that this process had the task in."""
    writer: Future[Writer]
    fresh: bool = True
    """Whether it was taken in this batch, so that `stored` tells what is written."""
    used: bool = False
    """Whether this batch's part was delivered with it: a second time it is asked again."""


def progress_topic(application: str) -> str:
    return f"{application}.progress"


class KafkaExactlyOnce(KafkaTopicsWritten):
    def __init__(
        self, client: Mapping[str, str], compaction_lag: int = DAY, writer: Calls = "quickest"
    ) -> None:
        super().__init__(client, compaction_lag)
        self.way = way_of(writer)
        self.held: dict[tuple[str, int], Holding] = {}
        self.background = ThreadPoolExecutor(1)

    @cached_property
    def topics(self) -> KafkaTopics:
        return KafkaTopics(self.client, patience=PATIENCE)

    @cached_property
    def reader(self) -> RangeReader:
        return RangeReader(self.client)

    def take_over(self, application: str, run: int) -> None:
        """Tells earlier runs, if there are any, that they may write no more."""
        topic = progress_topic(application)
        with suppress(TopicError):  # it exists
            admin.create_topic(self.client, topic, partitions=PARTITIONS, config=SETTINGS)
        producer = self._producer(application, RUN)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, json.dumps({"run": run}), RUN, partition=partition)
        producer.commit_transaction(ATTEMPT)

    def begin(self, part: Part) -> None:
        """Takes the task's id while its rows are computed, unless this process has it still."""
        place = (part.application, part.task)
        holding = self.held.get(place)
        if holding and (holding.checkpoint, holding.batch) == (part.checkpoint, part.batch - 1):
            holding.batch, holding.fresh, holding.used = part.batch, False, False
        else:
            self.held.pop(place, None)
            taken = self.background.submit(self._taken, part)
            self.held[place] = Holding(part.checkpoint, part.batch, taken)

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        outputs = encoded(found, evaluator, self.limits)
        progress = progress_of(part, [rows.select(["key", "value"]) for _, rows in outputs])
        give_up = time.monotonic() + PATIENCE
        while True:
            holding = self.held.pop((part.application, part.task), None)
            try:
                self._attempt(part, holding, outputs, progress)
                return
            except KafkaException as error:
                # whatever went wrong, a new producer finds out what has taken effect
                if error.args[0].code() in REFUSED or time.monotonic() > give_up:
                    raise BrokerError(
                        "records could not be written to Kafka",
                        where=f"task {part.task}, batch {part.batch}",
                        got=error.args[0].str(),
                    ) from error
                time.sleep(PAUSE)

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        self.deliver(compared(part), found, evaluator)

    def last_batch(self, owner: Owner) -> int | None:
        topic, own = progress_topic(owner.application), f"{owner.checkpoint}/".encode()
        ranges = settled(self.topics, [Partition(topic, number) for number in range(PARTITIONS)])
        found = -1
        for read in self.reader.read([ranges]):
            for each in (row for records in read.values() for row in records.to_pylist()):
                if (each["__key"] or b"").startswith(own) and each["__value"]:
                    found = max(found, json.loads(each["__value"])["batch"])
        return found

    def _attempt(
        self, part: Part, holding: Holding | None, outputs: Encoded, progress: Progress
    ) -> None:
        batch = (part.checkpoint, part.batch)
        if holding is None or holding.used or (holding.checkpoint, holding.batch) != batch:
            self.held.pop((part.application, part.task), None)
            self.begin(part)
            holding = self.held.pop((part.application, part.task))
        writer = holding.writer.result()
        if not (
            (holding.fresh or isinstance(part, Compared)) and done(part, writer.stored, progress)
        ):
            producer = writer.producer
            producer.begin_transaction()
            send(writer.sending, outputs, self.limits)
            producer.produce(
                progress_topic(part.application),
                json.dumps(asdict(progress)),
                _key(part),
                partition=part.task % PARTITIONS,
            )
            _commit(producer)
        holding.used = True
        self.held[part.application, part.task] = holding

    def _taken(self, part: Part) -> Writer:
        producer = self._producer(part.application, part.task)
        directly = self.way == "direct"
        handing = direct_sending.sending(producer) if directly else PublicSending(producer)
        return Writer(producer, handing, self._stored(part))

    def _producer(self, application: str, writer: int | str) -> Producer:
        """Fences every other producer of the id; what they had not committed is gone."""
        own = {"transactional.id": f"{application}.{writer}", **TRANSACTIONAL}
        producer = Producer({**self.client, **PRODUCER, **own}, logger=admin.quiet)
        # If it is not connected when transactions begin, it tries again after half a second. The
        # first answer is of a bootstrap server, whose connection ends with it.
        for _ in range(2):
            producer.list_topics(progress_topic(application), timeout=ATTEMPT)
        producer.init_transactions(ATTEMPT)
        return producer

    def _stored(self, part: Part) -> Progress | None:
        """The task's last progress record. Nobody else can be writing one."""
        partition = Partition(progress_topic(part.application), part.task % PARTITIONS)
        first, end = self._range(partition)
        begin = max(first, end - TAIL)
        found = self._read(part, Range(partition, begin, end))
        if found is None and begin > first:
            found = self._read(part, Range(partition, first, begin))
        return found

    def _read(self, part: Part, range: Range) -> Progress | None:
        found = None
        for read in self.reader.read([[range]]):
            for each in (row for records in read.values() for row in records.to_pylist()):
                stored = json.loads(each["__value"] or b"{}")
                refuse_if_fenced(part, stored["run"])
                if each["__key"] == _key(part).encode():
                    found = Progress(**stored)
        return found

    def _range(self, partition: Partition) -> tuple[int, int]:
        """A partition's first offset and its end, once nothing before it is open."""
        end = self.topics.ends([partition], committed=False)[partition]
        give_up = time.monotonic() + PATIENCE
        while self.topics.ends([partition])[partition] < end:
            # another task that shares the partition is in the middle of its transaction
            if time.monotonic() > give_up:
                raise BrokerError("a transaction does not end", where=partition)
            time.sleep(0.02)
        return self.topics.starts([partition])[partition], end


def _key(part: Part) -> str:
    return f"{part.checkpoint}/{part.task}"


def _commit(producer: Producer) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            producer.commit_transaction(ATTEMPT)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > give_up:
                raise
