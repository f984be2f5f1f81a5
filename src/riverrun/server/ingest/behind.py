"""How far applications are behind what is written to their topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from confluent_kafka import Consumer, KafkaException, TopicPartition
from starlette.concurrency import run_in_threadpool

from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import RiverrunError
from riverrun.kafka.admin import quiet
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.server.ingest.opened import Opened

REMEMBERED = 1.0
"""Seconds for which the answer of Kafka holds; what is written here meanwhile is added."""
PATIENCE = 2.0
AWAY = 5.0
"""Seconds that it has to answer, and for which it is not asked again when it did not."""
LATER, LONGEST = 5, 60
"""Seconds after which to come back: if nothing is known, and at most."""


@dataclass(frozen=True)
class Look:
    at: float
    lag: int
    """Records of the application that has most to read."""
    rate: float | None
    """Records per second that it reads."""
    read: int


class Behind:
    def __init__(self, settings: Settings, written: Callable[[str], int]) -> None:
        """`written`: how many records this server has written to a topic."""
        self.settings, self.written = settings, written
        self._looks: dict[str, tuple[Look, int]] = {}
        self._topics: KafkaTopics | None = None
        self._groups: dict[str, Consumer] = {}
        self._away_until = 0.0
        self._lock = threading.Lock()

    async def lag(self, topic: Opened) -> int | None:
        """None if Kafka cannot be asked."""
        known = self._looks.get(topic.name)
        if known is None or time.monotonic() > known[0].at + REMEMBERED:
            await run_in_threadpool(self._look, topic)
            known = self._looks.get(topic.name)
        if known is None:
            return None
        look, before = known
        return look.lag + self.written(topic.name) - before

    def come_back(self, topic: Opened, lag: int) -> int:
        """Seconds until it will be below the limit, as it reads now."""
        known = self._looks.get(topic.name)
        rate = known[0].rate if known else None
        if not rate:
            return LATER
        return min(max(ceil((lag - topic.intake.limit + 1) / rate), 1), LONGEST)

    def _look(self, topic: Opened) -> None:
        with self._lock:
            known = self._looks.get(topic.name)
            if known is not None and time.monotonic() <= known[0].at + REMEMBERED:
                return  # another request has asked
            if time.monotonic() < self._away_until:
                return
            try:
                written = self.written(topic.name)
                self._looks[topic.name] = self._asked(topic, known and known[0]), written
            except (RiverrunError, KafkaException):
                self._looks.pop(topic.name, None)
                self._topics, self._away_until = None, time.monotonic() + AWAY
                self._groups.clear()

    def _asked(self, topic: Opened, before: Look | None) -> Look:
        if self._topics is None:
            self._topics = KafkaTopics(kafka.client(self.settings), patience=1.0)
        topics = self._topics
        many = topics.facts([topic.name])[topic.name].partitions
        places = [Partition(topic.name, number) for number in range(many)]
        starts, ends = topics.starts(places), topics.ends(places)
        found = []
        for application in topic.applications:
            read = self._read(application, places)
            stands = {each: max(read.get(each, 0), starts[each]) for each in places}
            lag = sum(max(ends[each] - stands[each], 0) for each in places)
            found.append((lag, sum(stands.values())))
        lag, read_to = max(found)
        now = time.monotonic()
        return Look(now, lag, _rate(before, now, read_to), read_to)

    def _read(self, group: str, places: list[Partition]) -> dict[Partition, int]:
        """Up to where a group has read. It is asked by a consumer, which never joins it: librdkafka
        ends the process if an admin client asks while the group's coordinator is not ready."""
        if group not in self._groups:
            self._groups[group] = _consumer(kafka.client(self.settings), group)
        asked = [TopicPartition(*place) for place in places]
        found = self._groups[group].committed(asked, timeout=PATIENCE)
        return {Partition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


def _consumer(client: Mapping[str, str], group: str) -> Consumer:
    return Consumer({**client, "group.id": group, "enable.auto.commit": "false"}, logger=quiet)


def _rate(before: Look | None, now: float, read: int) -> float | None:
    """None while nothing is known, or nothing is read."""
    if before is None or now <= before.at or read <= before.read:
        return None
    return (read - before.read) / (now - before.at)
