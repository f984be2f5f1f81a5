"""Input for benchmarks: page views as JSON, in order of time up to a little jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from confluent_kafka import Producer
from rich.console import Console
from rich.progress import Progress

from riverrun.kafka import admin

START = 1_767_225_600_000
AT_ONCE = 10_000
CLOSING = "closing-"
"""Begins the names of the users whose views close the windows of all others."""
PRODUCER = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": str(1 << 19),
    "queue.buffering.max.messages": "1000000",
}


def events(
    count: int, keys: int, *, per_second: int, start: int = 0, seed: int = 1
) -> Iterator[bytes]:
    """Views of random users, `per_second` of them per second of event time."""
    chosen = random.Random(seed)
    for number in range(start, start + count):
        at = START + number * 1000 // per_second + chosen.randrange(100)
        user, page = chosen.randrange(keys), number % 1000
        yield view(f"user-{user}", page, chosen.randrange(4000) / 4, at)


def closing(count: int) -> Iterator[bytes]:
    """Views of a few others, a day later: by then every window before them has closed."""
    for number in range(count):
        yield view(f"{CLOSING}{number % 16}", number % 1000, 1.0, START + 86_400_000)


def every_key(keys: int) -> Iterator[bytes]:
    """One view of each user, all at nearly the same time."""
    for user in range(keys):
        yield view(f"user-{user}", user % 1000, user % 4000 / 4, START)


def view(user: str, page: int, ms: float, at: int) -> bytes:
    return f'{{"user":"{user}","page":"/page/{page}","ms":{ms},"at":{at}}}'.encode()


def produce(client: dict[str, str], topic: str, values: Iterator[bytes], count: int) -> None:
    """Spreads the values over the topic's partitions, in turn, with a progress bar."""
    _send(Producer({**client, **PRODUCER}), client, topic, values, count)


def produce_at_once(
    client: dict[str, str], topic: str, values: Iterator[bytes], count: int
) -> None:
    """The same in one transaction: a reader sees all of it or nothing."""
    producer = Producer({**client, **PRODUCER, "transactional.id": f"load-{topic}"})
    producer.init_transactions()
    producer.begin_transaction()
    _send(producer, client, topic, values, count)
    producer.commit_transaction()


def _send(
    producer: Producer, client: dict[str, str], topic: str, values: Iterator[bytes], count: int
) -> None:
    partitions = len(admin.describe(client, topic).partitions)
    with Progress(transient=True, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"producing to {topic}", total=count)
        for number, value in enumerate(values):
            while True:
                try:
                    producer.produce(topic, value, partition=number % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % AT_ONCE == 0:
                producer.poll(0)
                progress.update(task, completed=number)
    producer.flush()


class Traffic:
    """Views of now, of users who come and go: a name is new every `LIFE` seconds."""

    LIFE = 20

    def __init__(self, client: dict[str, str], topic: str, *, per_second: int) -> None:
        self._producer = Producer({**client, **PRODUCER})
        self._topic, self._per_second = topic, per_second
        self._partitions = len(admin.describe(client, topic).partitions)
        self._chosen = random.Random(1)
        self._began_at = time.time()
        self.sent = 0

    def catch_up(self) -> None:
        """Sends what is due by now: as many views as have come together since the last time."""
        now = time.time()
        due = int((now - self._began_at) * self._per_second)
        for number in range(self.sent, due):
            self._producer.produce(
                self._topic, self._made(now, number), partition=number % self._partitions
            )
        self.sent = due
        self._producer.poll(0)

    def end(self) -> None:
        self._producer.flush()

    def _made(self, now: float, number: int) -> bytes:
        user = f"user-{int(now) // self.LIFE}-{self._chosen.randrange(self._per_second)}"
        return view(user, number % 1000, self._chosen.randrange(4000) / 4, int(now * 1000))
