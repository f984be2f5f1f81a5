"""Kafka as a source: what there is to read, and ranges of it in lots."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from riverrun.connectors import admin
from riverrun.connectors.records import Columns, Range, lot_of, ranges_per_lot
from riverrun.errors import BrokerError, TopicError
from riverrun.event_time import partition_name, partition_of, topic_of
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot

OUTAGE = 120.0
"""Seconds that a running job waits for brokers that are away."""

AT_ONCE = 20_000
AT_MOST = 0.01
"""Records that are taken from the client together, and seconds to wait until there are so many."""

CLOSE = 1_000
"""Records between two that are wanted: fewer are read, and forgotten."""

CONSUMER = {
    "group.id": "riverrun",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "fetch.message.max.bytes": str(4 << 20),
    "queued.max.messages.kbytes": str(16 << 10),
    "fetch.wait.max.ms": "20",
    "fetch.queue.backoff.ms": "5",  # by default a full queue stops fetching for a whole second
}


AWAY = {
    *admin.PASSING,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._NOENT,  # no leaders are known
    KafkaError.REQUEST_TIMED_OUT,
}
T = TypeVar("T")


@dataclass(frozen=True)
class TopicFacts:
    id: str
    partitions: int


class KafkaTopics:
    """What the driver asks of a cluster: topics, their identity, and offsets."""

    def __init__(self, client: Mapping[str, str], *, patience: float = 5.0) -> None:
        self.client, self.patience = client, patience
        self.brokers = client["bootstrap.servers"]
        self.admin = AdminClient({**client}, logger=admin.quiet)

    def facts(self, topics: list[str]) -> dict[str, TopicFacts]:
        return {topic: self._ask(topic, partial(self._fact, topic)) for topic in topics}

    def _fact(self, topic: str) -> TopicFacts:
        asked = TopicCollection([topic])
        found = self.admin.describe_topics(asked, request_timeout=10)[topic].result()
        return TopicFacts(str(found.topic_id), len(found.partitions))

    def _ask(self, topic: str, call: Callable[[], T]) -> T:
        """Asks again while brokers are away. A client keeps to the leaders that it knew before they
        went, and is refused for ever: so each attempt has a new one."""
        give_up_at = time.monotonic() + self.patience
        while True:
            try:
                return call()
            except KafkaException as error:
                away = error.args[0].code() in AWAY
                if not away or time.monotonic() > give_up_at:
                    raise self._translated(error, topic) from error
            time.sleep(0.1)
            self.admin = AdminClient({**self.client}, logger=admin.quiet)

    def _translated(self, error: KafkaException, topic: str) -> Exception:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return TopicError(
                f"there is no topic {topic!r}",
                got=f"brokers {self.brokers}",
                hint=f"create it: riverrun topics create {topic} --partitions 4",
            )
        return unreachable(self.brokers, error)

    def ends(self, names: list[str], *, committed: bool = True) -> dict[str, int]:
        """The last stable offset of each partition: what is committed and can be read. Or else
        where the next record will be."""
        return self._offsets(dict.fromkeys(names, OffsetSpec.latest()), committed=committed)

    def starts(self, names: list[str]) -> dict[str, int]:
        return self._offsets(dict.fromkeys(names, OffsetSpec.earliest()))

    def at_time(self, names: list[str], milliseconds: int) -> dict[str, int]:
        """The first offsets at or after a time; the end where there are none."""
        found = self._offsets(dict.fromkeys(names, OffsetSpec.for_timestamp(milliseconds)))
        missing = [name for name, offset in found.items() if offset < 0]
        return found | (self.ends(missing) if missing else {})

    def _offsets(
        self, specs: Mapping[str, OffsetSpec], *, committed: bool = True
    ) -> dict[str, int]:
        if not specs:
            return {}
        asked = {TopicPartition(topic_of(n), partition_of(n)): spec for n, spec in specs.items()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = self._ask(
            topic_of(next(iter(specs))),
            lambda: admin.list_offsets(self.admin, asked, isolation_level=level),
        )
        return {partition_name(p.topic, p.partition): offset for p, offset in found.items()}


def unreachable(brokers: str, error: object) -> BrokerError:
    return BrokerError(
        "Kafka does not answer",
        got=f"{brokers}: {error}",
        hint="is it running? see `riverrun status`",
    )


@dataclass
class Reading:
    """A range being read: its records so far, and the offset up to which they are known."""

    end: int
    position: int
    columns: Columns


class KafkaRecords:
    """A consumer that reads ranges of offsets. One lives as long as the worker process."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.brokers = client["bootstrap.servers"]
        self.consumer = Consumer({**client, **CONSUMER}, logger=admin.quiet)

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        """The records of the ranges, in lots. `with_headers` names topics."""
        try:
            for group in ranges_per_lot(ranges):
                lot = lot_of(self._read(group, with_headers))
                if lot is not None:
                    yield lot
        finally:
            self.consumer.unassign()

    def originals(self, places: list[RecordPlace]) -> dict[RecordPlace, Original]:
        """Records with all that was written; those that are gone are left out."""
        wanted = set(places)
        found: dict[RecordPlace, Original] = {}
        topics = frozenset(place.topic for place in places)
        try:
            for around in _around(places):  # one at a time: a partition may have several
                with suppress(TopicError):  # retention was faster
                    [(name, columns)] = self._read([around], topics).items()
                    found |= {p: o for p, o in _originals(name, columns) if p in wanted}
        finally:
            self.consumer.unassign()
        return found

    def _read(self, group: list[Range], with_headers: frozenset[str]) -> dict[str, Columns]:
        readings = {name: _reading(name, s, e, with_headers) for name, s, e in group}
        self.consumer.assign(
            [TopicPartition(topic_of(name), partition_of(name), start) for name, start, _ in group]
        )
        unfinished = dict(readings)
        quiet_since = time.monotonic()
        while unfinished:
            # consume() waits for as many as it is asked for: ask for no more than there are, and
            # not for long, as the marks of transactions count, and never come
            left = sum(each.end - each.position for each in unfinished.values())
            messages = self.consumer.consume(min(AT_ONCE, left), AT_MOST)
            if messages:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > OUTAGE:
                raise unreachable(self.brokers, f"no answer for {OUTAGE:.0f} s")
            self._take(messages, unfinished)
        return {name: reading.columns for name, reading in readings.items()}

    def _take(self, messages: list[Message], unfinished: dict[str, Reading]) -> None:
        for (topic, partition), group in groupby(
            messages, key=lambda m: (m.topic(), m.partition())
        ):
            name = partition_name(topic, partition)
            if name not in unfinished:
                continue
            _extend(name, unfinished[name], list(group))
            if unfinished[name].position >= unfinished[name].end:
                del unfinished[name]
                if unfinished:
                    self.consumer.incremental_unassign([TopicPartition(topic, partition)])


def _around(places: list[RecordPlace]) -> Iterator[Range]:
    """Ranges that hold all places. Those close to each other are read at once."""
    for (topic, partition), group in groupby(sorted(places), key=lambda place: place[:2]):
        name = partition_name(topic, partition)
        offsets = [place.offset for place in group]
        start = end = offsets[0]
        for offset in offsets:
            if offset > end + CLOSE:
                yield name, start, end
                start = offset
            end = offset + 1
        yield name, start, end


def _originals(name: str, columns: Columns) -> Iterator[tuple[RecordPlace, Original]]:
    topic, partition = topic_of(name), partition_of(name)
    headers = columns.headers or []
    records = zip(columns.keys, columns.values, columns.timestamps, headers, strict=True)
    for offset, (key, value, at, found) in zip(columns.offsets, records, strict=True):
        yield RecordPlace(topic, partition, offset), Original(key, value, at, list(found or ()))


def _reading(name: str, start: int, end: int, with_headers: frozenset[str]) -> Reading:
    headers: list[Any] | None = [] if topic_of(name) in with_headers else None
    return Reading(end, start, Columns(headers=headers))


def _extend(name: str, reading: Reading, messages: list[Message]) -> None:
    good = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # nothing but control records can follow before the range's end
            reading.position = reading.end
        else:
            raise _lost(name, reading, error)
    offsets: list[Any] = [message.offset() for message in good]
    if offsets:
        reading.position = max(reading.position, offsets[-1] + 1)
    inside = good[: bisect_left(offsets, reading.end)]
    columns = reading.columns
    columns.offsets += offsets[: len(inside)]
    columns.values += [m.value() for m in inside]
    columns.keys += [m.key() for m in inside]
    columns.timestamps += [m.timestamp()[1] for m in inside]
    if columns.headers is not None:
        columns.headers += [m.headers() for m in inside]


def _lost(name: str, reading: Reading, error: KafkaError) -> Exception:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return TopicError(
            "records that were still to be read are gone",
            where=name,
            got=f"offset {reading.position}: {error.str()}",
            hint='retention deleted them: start over with --fresh, or declare on_loss="skip"',
        )
    return BrokerError("Kafka reports an error", where=name, got=error.str())
