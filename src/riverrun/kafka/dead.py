"""The dead letters of an application: what is there, what was retried, and retrying it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from riverrun.errors import BrokerError, InputError, RecordsGone
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.records import text_or_base64
from riverrun.partitions import Partition, Range

AT_ONCE = 1_000
"""Records of one transaction."""

PATIENCE = 30.0
NOT_OF_RECORDS = ("cause", "row")
"""What of a letter is in no record."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOR_GROUP = "riverrun-for-group"
"""A header of records that one group of a queue gets again: the others have done them."""


@dataclass(frozen=True)
class DeadLetter:
    """A letter, and whether its record was sent again."""

    own: str
    """Where the letter is: TOPIC/PARTITION/OFFSET."""
    at: int
    """Its record's time, in milliseconds; the event's for a row of a step."""
    facts: Mapping[str, Any]
    state: Literal["open", "retried"] = "open"

    @property
    def origin(self) -> str | None:
        """Where the record is; None for a timer, which is no record."""
        facts = self.facts
        if facts["topic"] is None:
            return None
        return f"{facts['topic']}/{facts['partition']}/{facts['offset']}"

    @property
    def place(self) -> str:
        return self.origin or self.own

    @property
    def cut(self) -> list[str]:
        """What of it the letter holds a part of only."""
        return self.facts.get("cut") or []

    @property
    def step(self) -> str:
        return str(self.facts["step"])

    @property
    def cause(self) -> str:
        return str(self.facts["cause"])

    def content(self, field: str) -> bytes | None:
        """The key or the value, as it was written."""
        return _bytes(self.facts, field)

    def record(self) -> dict[str, Any]:
        """All that was written, as a producer takes it; of a queue's with the group it is for."""
        facts = self.facts
        headers = [(each["name"], _bytes(each, "value")) for each in facts.get("headers") or ()]
        if facts.get("group") is not None:
            headers.append((FOR_GROUP, str(facts["group"]).encode()))
        since = datetime.fromisoformat(facts["timestamp"]) - EPOCH
        fields = {
            "topic": facts["topic"],
            "partition": facts["partition"],
            "key": self.content("key"),
            "value": self.content("value"),
            "timestamp": max(round(since.total_seconds() * 1000), 1),  # 0 is now
            "headers": headers,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _bytes(facts: Mapping[str, Any], field: str) -> bytes | None:
    if facts.get(f"{field}_base64") is not None:
        return base64.b64decode(facts[f"{field}_base64"])
    text = facts.get(field)
    return None if text is None else str(text).encode()


@dataclass(frozen=True)
class DeadLetters:
    """The topics APP.dead, and APP.dead.retried, which holds the places of records sent again."""

    client: Mapping[str, str] = field(repr=False)
    application: str

    @property
    def topic(self) -> str:
        return f"{self.application}.dead"

    @property
    def marks(self) -> str:
        return f"{self.topic}.retried"

    def read(self) -> list[DeadLetter]:
        """All letters as they came. One that a crash made riverrun write twice is one."""
        existing = {topic.name for topic in admin.topics(self.client)}
        if self.topic not in existing:
            raise InputError(
                f"the application {self.application!r} has no dead letters",
                got=f"there is no topic {self.topic!r}",
                hint="`riverrun topics` lists topics; an application's first run creates its own, "
                "and the first letter of a queue's group",
            )
        retried = self._retried() if self.marks in existing else set()
        found: dict[tuple[str, str], DeadLetter] = {}
        for letter in self._letters(retried):
            found.setdefault((letter.place, letter.step), letter)
        return list(found.values())

    def _letters(self, retried: set[str]) -> Iterator[DeadLetter]:
        with Browser(self.client, self.topic) as browser:
            for message in browser.read(browser.earliest):
                facts = json.loads(message.value() or b"{}")
                own = f"{self.topic}/{message.partition()}/{message.offset()}"
                letter = DeadLetter(own, message.timestamp()[1], facts)
                done = letter.origin in retried
                yield DeadLetter(own, letter.at, facts, "retried") if done else letter

    def whole(self, letter: DeadLetter) -> DeadLetter | None:
        """With the record as it is in its topic, if the letter was cut; None if that is gone."""
        lasting = [name for name in letter.cut if name in NOT_OF_RECORDS]
        if letter.origin is None or lasting == letter.cut:
            return letter
        partition = Partition(letter.facts["topic"], letter.facts["partition"])
        wanted = Range(partition, letter.facts["offset"], letter.facts["offset"] + 1)
        try:
            [read] = RangeReader(self.client).read([[wanted]], frozenset([partition.topic]))
        except RecordsGone:
            return None
        if not read[partition].num_rows:
            return None
        written = _written(read[partition])
        return replace(letter, facts={**letter.facts, **written, "cut": lasting or None})

    def _retried(self) -> set[str]:
        with Browser(self.client, self.marks) as browser:
            return {(m.key() or b"").decode() for m in browser.read(browser.earliest)}

    def retry(self, places: Sequence[str] | None) -> Retry:
        """To be iterated: each step sends some again. None: all letters that are open."""
        return Retry(self, places)


class Retry:
    """Sends records again to where they came from, with a mark in the same transaction.

    Only one runs at a time: it fences the one before, and reads the marks after that.
    """

    def __init__(self, letters: DeadLetters, places: Sequence[str] | None) -> None:
        existing = {topic.name for topic in admin.topics(letters.client)}
        if letters.marks not in existing:
            config = {"cleanup.policy": "compact"}
            admin.create_topic(letters.client, letters.marks, config=config)
        self.letters = letters
        self.producer = Producer(
            {
                **letters.client,
                "transactional.id": letters.marks,
                "enable.idempotence": "true",
                "linger.ms": "5",
            },
            logger=admin.quiet,
        )
        with _told(letters.topic):
            self.producer.init_transactions(PATIENCE)
        self.chosen = _chosen(letters.read(), places)

    def only(self, keep: Collection[str]) -> None:
        """Leaves out all places but these."""
        self.chosen = [each for each in self.chosen if each.place in keep]

    def __len__(self) -> int:
        return len(self.chosen)

    def send(self) -> Iterator[int]:
        """How many were sent in each transaction."""
        for start in range(0, len(self.chosen), AT_ONCE):
            part = self.chosen[start : start + AT_ONCE]
            whole = [_found(self.letters.whole(letter), letter) for letter in part]
            with _told(self.letters.topic):
                self.producer.begin_transaction()
                for letter in whole:
                    self.producer.produce(**letter.record())
                    mark = json.dumps({"at": round(time.time() * 1000), "letter": letter.own})
                    self.producer.produce(self.letters.marks, mark, letter.place)
                    self.producer.poll(0)
                self.producer.commit_transaction(PATIENCE)
            yield len(part)


def _written(found: pa.Table) -> dict[str, Any]:
    """The first of the records, as letters hold them."""
    [first] = found.slice(0, 1).to_pylist()
    headers = [
        {"name": each["name"], **_texts("value", each["value"])}
        for each in first["__headers"] or ()
    ]
    return {
        **_texts("key", first["__key"]),
        **_texts("value", first["__value"]),
        "headers": headers or None,
    }


def _texts(name: str, content: bytes | None) -> dict[str, str | None]:
    return dict(zip((name, f"{name}_base64"), text_or_base64(content), strict=True))


def _found(whole: DeadLetter | None, letter: DeadLetter) -> DeadLetter:
    if whole is None:
        raise InputError(
            "the record is gone, and its letter holds only a part of it",
            where=letter.place,
            got=f"cut: {', '.join(letter.cut)}",
            hint="give the places of the others, or choose them with --step and --cause",
        )
    return whole


def _chosen(letters: list[DeadLetter], places: Sequence[str] | None) -> list[DeadLetter]:
    """One letter for each record; places that cannot be retried are an error."""
    by_place = {each.place: each for each in reversed(letters)}
    by_place |= {each.own: each for each in letters}
    if places is None:
        open_ = [each for each in letters if each.state == "open" and each.origin is not None]
        wanted = sorted(open_, key=_order)
    else:
        wanted = [_retryable(by_place, place) for place in places]
    return list({letter.place: letter for letter in wanted}.values())


def _order(letter: DeadLetter) -> tuple[Any, ...]:
    """Records are sent again in the order that they had."""
    return tuple(letter.facts[name] for name in ("topic", "partition", "offset"))


def _retryable(by_place: Mapping[str, DeadLetter], place: str) -> DeadLetter:
    letter = found(by_place, place)
    if letter.state == "retried":
        raise InputError("the record was sent again before", where=place)
    if letter.origin is None:
        raise InputError("a timer cannot be sent again: it is no record", where=place)
    return letter


def found(by_place: Mapping[str, DeadLetter], place: str) -> DeadLetter:
    if place not in by_place:
        raise InputError(
            f"there is no dead letter of {place!r}",
            hint="a place is TOPIC/PARTITION/OFFSET, as `riverrun dead list` shows it",
        )
    return by_place[place]


@contextmanager
def _told(topic: str) -> Iterator[None]:
    """Kafka's refusals as one clear error."""
    try:
        yield
    except KafkaException as error:
        raise BrokerError(
            "Kafka refuses to take records again",
            where=topic,
            got=error.args[0].str(),
            hint="nothing of the last transaction was sent; is another retry running?",
        ) from error
