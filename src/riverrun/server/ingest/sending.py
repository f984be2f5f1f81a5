"""Posts to Kafka, each once: records and the note that they are there, in one transaction.

All posts that wait go into one transaction, which also writes them down in the topic of posts. A
producer that fails, or that another one has fenced, is made anew: then the topic tells which of its
posts have taken effect, and whether somebody else has used a key. So nothing is ever in doubt for
longer than Kafka is away.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import RiverrunError, TopicError
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range
from riverrun.server.answers import Refused
from riverrun.server.ingest.keys import Entry, Keys, Name
from riverrun.sinks.kafka.compacted import settled
from riverrun.views.tokens import Token

PRODUCER: Mapping[str, Any] = {
    "enable.idempotence": "true",
    "partitioner": "murmur2_random",  # as Java's
    "compression.type": "lz4",
    "linger.ms": "0",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": str(256 << 10),
    "message.max.bytes": str(64 << 20),  # what the topic takes is asked before
    "transaction.timeout.ms": "10000",  # then readers no longer wait for a server that is gone
    "message.timeout.ms": "8000",
    "topic.metadata.propagation.max.ms": "3000",
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "1000",
}
ATTEMPT = 8.0
PATIENCE, LITTLE = 15.0, 2.0
PAUSE, LAST_WORD = 0.1, 2.0
"""Seconds: for one call to Kafka; until a post fails, and if the one before has failed, too;
between two attempts; for what is open to be given up."""
NOTE = 256 << 10
"""Bytes of a record in the topic of posts, about."""
RECEIVED, KEY = "riverrun-received", "riverrun-key"
OWN_FAULT = {
    KafkaError.MSG_SIZE_TOO_LARGE: (413, "a record is larger than the topic takes"),
    KafkaError.INVALID_RECORD: (400, "the topic does not take such a record"),
    KafkaError.INVALID_TIMESTAMP: (400, "the topic does not take records of this time"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (403, "the server may not write this topic"),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (404, "Kafka has no such topic"),
    KafkaError._UNKNOWN_TOPIC: (404, "Kafka has no such topic"),
    KafkaError._UNKNOWN_PARTITION: (404, "Kafka has no such topic"),
}
"""What Kafka says of a post that it will never take."""
FAILURES = (KafkaException, RiverrunError, sqlite3.Error, SystemError)
"""What makes a producer useless. One that is fenced while it flushes is a SystemError: its client
loses the exception on the way."""
AGAIN = "the same key with another body"


@dataclass(frozen=True)
class Post:
    """Records that are written together, or not at all."""

    topic: str
    records: Sequence[tuple[bytes | None, bytes]]
    """Keys and values."""
    received: int
    name: Name | None = None
    """Of its idempotency key."""
    hash: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What is told again when it is repeated."""


@dataclass(frozen=True)
class Outcome:
    answer: dict[str, Any]
    repeated: bool = False


@dataclass
class Attempt:
    """A transaction."""

    posts: list[Post]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    offsets: list[dict[Partition, int]] = field(default_factory=list)
    failed: dict[int, KafkaError] = field(default_factory=dict)
    noted_at: int = 0
    """The offset of its last note."""
    committing: bool = False

    def outcomes(self) -> list[Outcome]:
        return [
            Outcome(_answer(post, offsets))
            for post, offsets in zip(self.posts, self.offsets, strict=True)
        ]


class _OwnFault(Exception):
    """Some posts cannot be taken, whoever sends them."""


class Sending:
    """Used by one thread."""

    def __init__(self, settings: Settings, keys: Keys) -> None:
        self.settings, self.keys = settings, keys
        self.topic = f"{settings.serve.name}.posts"
        self.producer: Producer | None = None
        self.log = ""
        self.away = False
        """Whether Kafka was given up the last time."""

    def send(self, posts: list[Post]) -> list[Outcome | Exception]:
        """What becomes of each, in their order."""
        found: dict[int, Outcome | Exception] = {}
        give_up = time.monotonic() + (LITTLE if self.away else PATIENCE)
        attempt = None
        while len(found) < len(posts):
            try:
                done = self._ready()
                if attempt is not None and attempt.id in done:
                    found |= zip(_left(posts, found), attempt.outcomes(), strict=True)
                    break
                found |= self._repeated(posts, found)
                attempt = Attempt([posts[number] for number in _left(posts, found)])
                self._carry_out(attempt)
                found |= zip(_left(posts, found), attempt.outcomes(), strict=True)
                self.away = False
            except _OwnFault:
                assert attempt is not None
                found |= self._apart(attempt, _left(posts, found))
                attempt = None
            except FAILURES:
                self._drop()
                self.away = time.monotonic() > give_up
                if self.away:
                    failed = _away(doubtful=bool(attempt and attempt.committing))
                    found |= dict.fromkeys(_left(posts, found), failed)
                time.sleep(PAUSE)
        return [found[number] for number in range(len(posts))]

    def look_back(self) -> None:
        """What was sent last before this process began is known then, if Kafka answers."""
        with suppress(*FAILURES):
            self._ready()

    def _repeated(
        self, posts: list[Post], found: Mapping[int, Outcome | Exception]
    ) -> dict[int, Outcome | Exception]:
        """Those whose key has been used, as far as anybody can know: nobody else writes now."""
        again: dict[int, Outcome | Exception] = {}
        for number in _left(posts, found):
            name = posts[number].name
            known = None if name is None else self.keys.find(name, writing=True)
            if known is not None:
                again[number] = outcome_of(known, posts[number].hash)
        return again

    def _carry_out(self, attempt: Attempt) -> None:
        if not attempt.posts:
            return
        producer = self.producer
        assert producer is not None
        producer.begin_transaction()
        attempt.offsets = [{} for _ in attempt.posts]
        for number, post in enumerate(attempt.posts):
            self._produce(producer, attempt, number, post)
        producer.flush(ATTEMPT)
        if any(error.code() in OWN_FAULT for error in attempt.failed.values()):
            self._drop()  # it would fail the next one, too
            raise _OwnFault
        if attempt.failed:
            raise KafkaException(next(iter(attempt.failed.values())))
        for note in _notes(attempt):
            heard = partial(_noted, attempt)
            producer.produce(self.topic, note, attempt.id, 0, on_delivery=heard)
        attempt.committing = True
        producer.commit_transaction(ATTEMPT)
        try:
            self.keys.add(_entries(attempt), self.log, attempt.noted_at + 1)
        except sqlite3.Error:  # it has taken effect: the topic is read again before the next
            self._drop()

    def _produce(self, producer: Producer, attempt: Attempt, number: int, post: Post) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(RECEIVED, str(post.received))]
        if post.name is not None:
            headers.append((KEY, post.name.key))
        for key, value in post.records:
            while True:
                try:
                    producer.produce(
                        post.topic, value, key, timestamp=post.received, headers=headers,
                        on_delivery=partial(_heard, attempt, number),
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.05)
                except KafkaException as error:
                    attempt.failed[number] = error.args[0]
                    return
        producer.poll(0)

    def _apart(self, attempt: Attempt, numbers: Sequence[int]) -> dict[int, Outcome | Exception]:
        """Of posts that Kafka refuses: each alone, since what it says is of several together."""
        if len(attempt.posts) == 1:
            status, fact = OWN_FAULT[attempt.failed[0].code()]
            return {numbers[0]: Refused(status, fact)}
        blamed = [n for n, error in attempt.failed.items() if error.code() in OWN_FAULT]
        return {numbers[n]: self.send([attempt.posts[n]])[0] for n in blamed}

    def _ready(self) -> set[str]:
        """Makes the producer if there is none. The transactions that were read of then."""
        if self.producer is not None:
            return set()
        client = kafka.client(self.settings)
        self._make_topic(client)
        own = {"transactional.id": self.topic}
        producer = Producer({**client, **PRODUCER, **own}, logger=admin.quiet)
        for _ in range(2):  # connected first: else its first try waits half a second
            producer.list_topics(self.topic, timeout=ATTEMPT)
        producer.init_transactions(ATTEMPT)
        done = self._read(client)
        self.producer = producer
        return done

    def _make_topic(self, client: Mapping[str, str]) -> None:
        wanted = {
            "cleanup.policy": "delete",
            "retention.ms": str(self.keys.keep),
            "segment.ms": str(max(self.keys.keep // 4, 60_000)),
        }
        with suppress(TopicError):  # it exists
            admin.create_topic(client, self.topic, config=wanted)
            return
        if admin.settings(client, self.topic)["retention.ms"] != wanted["retention.ms"]:
            admin.alter_topic(client, self.topic, wanted)

    def _read(self, client: Mapping[str, str]) -> set[str]:
        """The topic of posts, from where it was read to."""
        topics, place = KafkaTopics(client), Partition(self.topic, 0)
        self.log = topics.facts([self.topic])[self.topic].id
        [(_, start, end)] = settled(topics, [place])
        start = max(start, self.keys.read_to(self.log) or 0)
        done: set[str] = set()
        for read in RangeReader(client).read([[Range(place, start, end)]]) if start < end else ():
            for each in (row for records in read.values() for row in records.to_pylist()):
                done.add(each["__key"].decode())
                noted = json.loads(each["__value"])["posts"]
                self.keys.add((Entry(**post) for post in noted), self.log, each["__offset"] + 1)
        self.keys.add((), self.log, end)
        return done

    def _drop(self) -> None:
        """What is open is given up at once, so that nobody waits for it."""
        if self.producer is not None:
            with suppress(KafkaException, SystemError):
                self.producer.purge()
                self.producer.abort_transaction(LAST_WORD)
            self.producer = None


def outcome_of(known: Entry, hash: str) -> Outcome | Exception:
    if known.hash != hash:
        return Refused(422, AGAIN, got=known.key, hint="a key is for one request and its repeats")
    return Outcome(known.answer, repeated=True)


def _heard(attempt: Attempt, number: int, error: KafkaError | None, message: Message) -> None:
    if error is not None:
        before = attempt.failed.get(number)
        if before is None or before.code() not in OWN_FAULT:
            attempt.failed[number] = error
        return
    place = Partition(str(message.topic()), int(message.partition() or 0))
    offsets = attempt.offsets[number]
    offsets[place] = max(int(message.offset() or 0), offsets.get(place, 0))


def _noted(attempt: Attempt, error: KafkaError | None, message: Message) -> None:
    if error is None:
        attempt.noted_at = max(attempt.noted_at, int(message.offset() or 0))


def _left(posts: Sequence[Post], found: Mapping[int, Any]) -> list[int]:
    return [number for number in range(len(posts)) if number not in found]


def _answer(post: Post, offsets: Mapping[Partition, int]) -> dict[str, Any]:
    token = str(Token.of(offsets)) if offsets else None
    return {"records": len(post.records), "token": token, **post.more}


def _entries(attempt: Attempt) -> list[Entry]:
    return [
        Entry(**vars(post.name), hash=post.hash, at=post.received, answer=outcome.answer)
        for post, outcome in zip(attempt.posts, attempt.outcomes(), strict=True)
        if post.name is not None
    ]


def _notes(attempt: Attempt) -> Iterator[bytes]:
    """At least one, so that the transaction is known; several if one would be too large."""
    part: list[str] = []
    size = 0
    for each in _entries(attempt):
        part.append(json.dumps(asdict(each)))
        size += len(part[-1])
        if size > NOTE:
            yield _note(part)
            part, size = [], 0
    yield _note(part)


def _note(entries: Sequence[str]) -> bytes:
    return f'{{"posts": [{", ".join(entries)}]}}'.encode()


def _away(*, doubtful: bool) -> Refused:
    fact = (
        "it is not known whether Kafka has taken it" if doubtful else "Kafka does not take it now"
    )
    return Refused(
        503, fact, hint="send it again, with an Idempotency-Key: then it is there once",
        more={"in_doubt": doubtful}, headers={"Retry-After": "2"},
    )  # fmt: skip
