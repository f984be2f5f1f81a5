"""Alerts of a running program: what is in the outbox of a step is sent by each of its channels.

A channel has a place in the outbox, which Kafka keeps. It moves on when something was taken, so
what a crash leaves in doubt is sent again, with its key. While a receiver is away the job goes on;
when it is back it is told how each group stands, not all that was to be told meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from riverrun import exact
from riverrun.alerts.channels import Mail
from riverrun.alerts.outbox import Addressed, Outbox
from riverrun.alerts.sending import Note, Sender, payload, sender
from riverrun.alerts.waiting import Queue, Waiting
from riverrun.config import Settings
from riverrun.errors import BrokerError, ConfigError
from riverrun.kafka import admin
from riverrun.kernels.program import Program
from riverrun.operators.alert.spec import NOTIFIED
from riverrun.outputs import Part
from riverrun.sinks.webhooks import Aside, Refusal

Tell = Callable[[str], None]
MOST = 10_000
"""Notifications that are held at once."""
LAST_WORD = 5.0
"""Seconds that are left for what is not sent yet when the job ends."""
LOOK = 0.2
NOTED = tuple(column.name for column in NOTIFIED)
READING = {
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "100",
}


def outboxes(program: Program) -> list[Outbox]:
    return [each.sink for each in program.outputs if isinstance(each.sink, Outbox)]


def require(program: Program, settings: Settings) -> None:
    """Mail needs a server."""
    found = [each.channel for box in outboxes(program) for each in box.channels]
    mails = [each for each in found if isinstance(each, Mail)]
    if mails and settings.smtp is None:
        raise ConfigError(
            "the program sends mail, and no server is set for it",
            where=mails[0].name,
            hint='in riverrun.toml: [smtp] host = "…"; the password in RIVERRUN_SMTP_PASSWORD',
        )


def begun(
    program: Program, settings: Settings, client: Mapping[str, str], tell: Tell
) -> list[Carrier]:
    """Before the first batch: who has a place in the outbox is not to miss what comes."""
    carriers = [
        Carrier(
            Way(program.name, box, each, sender(program.name, box, each.channel, settings.smtp)),
            client,
            tell,
        )
        for box in outboxes(program)
        for each in box.channels
    ]
    for carrier in carriers:
        _patiently(carrier.begin)
    return carriers


def _patiently(begin: Callable[[], None]) -> None:
    """A broker that has just started has nobody yet who keeps the places of groups."""
    give_up = time.monotonic() + admin.PATIENCE.total_seconds()
    while True:
        try:
            return begin()
        except KafkaException as error:
            if time.monotonic() > give_up:
                raise BrokerError(
                    "Kafka does not tell how far alerts were sent", got=error.args[0].str()
                ) from error
            time.sleep(LOOK)


@contextmanager
def carried(carriers: Sequence[Carrier]) -> Iterator[None]:
    """While the program runs. In the end there is a moment for what is not sent yet."""
    over = threading.Event()
    threads = [threading.Thread(target=each.run, args=(over,), daemon=True) for each in carriers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * LAST_WORD)


@dataclass(frozen=True)
class Way:
    """From an outbox to those who are told."""

    application: str
    outbox: Outbox
    addressed: Addressed
    sender: Sender

    @property
    def name(self) -> str:
        """The consumer group that keeps the place."""
        return f"{self.application}.{self.outbox.step}: {self.addressed.channel.name}"


class Carrier:
    def __init__(self, way: Way, client: Mapping[str, str], tell: Tell) -> None:
        self.way, self.client, self.tell = way, dict(client), tell
        self.queue = Queue(way.sender, way.outbox.keys, self._tell, self._aside)
        self.places: dict[int, int] = {}
        """Of each partition where reading goes on."""
        self.said = ""
        """What was wrong with the broker."""
        settings: dict[str, Any] = {**client, **READING, "group.id": way.name}
        self.consumer = Consumer(settings, logger=admin.quiet)

    def begin(self) -> None:
        """Takes up its place; a new channel is told from now on."""
        topic = self.way.outbox.name
        numbers = [each.number for each in admin.describe(self.client, topic).partitions]
        asked = [TopicPartition(topic, number) for number in numbers]
        patience = admin.PATIENCE.total_seconds()
        known = {each.partition: each.offset for each in self.consumer.committed(asked, patience)}
        for each in asked:
            start, end = self.consumer.get_watermark_offsets(each, patience)
            place = known[each.partition]
            self.places[each.partition] = end if place < 0 else max(place, start)
        self._commit()
        self.consumer.assign([TopicPartition(topic, *place) for place in self.places.items()])

    def run(self, over: threading.Event) -> None:
        """Until the event is set, and for a moment after it."""
        give_up = None
        while give_up is None or (time.monotonic() < give_up and self._left()):
            if over.is_set() and give_up is None:
                give_up = time.monotonic() + LAST_WORD
            try:
                self._take()
                self.queue.send(time.monotonic, self._commit)
            except Exception as error:
                # the broker may be away; whatever it is, what waits is to be sent
                if (text := f"warning: {error}") != self.said:
                    self.said = text
                    self._tell(text)
                over.wait(1.0)
        self.consumer.close()

    def _tell(self, text: str) -> None:
        kind, _, message = text.partition(": ")
        self.tell(f"{kind}: {self.way.name}: {message}")

    def _left(self) -> bool:
        """Whether something is there that could be sent. Nobody waits for who is away."""
        if self.queue.failed or self.queue.waiting:
            return not self.queue.failed
        topic = self.way.outbox.name
        with suppress(KafkaException):
            for number, place in self.places.items():
                partition = TopicPartition(topic, number)
                if place < self.consumer.get_watermark_offsets(partition, LAST_WORD)[1]:
                    return True
        return False

    def _take(self) -> None:
        if len(self.queue.waiting) >= MOST:
            return
        for message in self.consumer.consume(500, LOOK):
            error = message.error()
            if error is None:
                self._add(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                # behind the marks of transactions, which are no records
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                self.places[partition] = offset

    def _add(self, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None
        self.places[partition] = offset + 1
        note = note_of(value, self.way.outbox.keys)
        if note is not None and self.way.addressed.wants(note["kind"], note["level"]):
            self.queue.add(Waiting(partition, offset, note))

    def _aside(self, note: Note, refusal: Refusal) -> None:
        """What nobody will ever take is a dead letter."""
        way = self.way
        self._tell(f"warning: {note['key']} is set aside: {refusal.cause}")
        tick = time.time_ns() // 1000
        aside = Aside(Part(way.application, "", 0, -1, 0, tick), self.client)
        step = f"{way.outbox.step}: {way.addressed.channel.name}"
        aside.put(step, payload(way.application, way.outbox, note), refusal.cause)
        aside.flush()

    def _commit(self) -> None:
        """Up to what is still to be sent."""
        places = dict(self.places)
        for each in self.queue.waiting:
            places[each.partition] = min(places[each.partition], each.offset)
        topic = self.way.outbox.name
        offsets = [TopicPartition(topic, *place) for place in places.items()]
        self.consumer.commit(offsets=offsets, asynchronous=False)


def note_of(value: object, keys: Sequence[str]) -> Note | None:
    """None of what no job has written: anybody may write to a topic."""
    try:
        found = exact.loads(value) if isinstance(value, bytes) else None
        return found if isinstance(found, dict) and found.keys() >= {*keys, *NOTED} else None
    except (ValueError, RecursionError):
        return None
