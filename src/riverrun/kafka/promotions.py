"""The log of promotions as a topic: never compacted, kept for ever, in one partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from riverrun.errors import NoTopic
from riverrun.kafka.control import make_log
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range
from riverrun.promotion import Noted, Promotions, promotion_topic


class PromotionLog:
    """The promotions of one application. What was read is remembered: each look reads the rest."""

    def __init__(
        self, client: Mapping[str, str], application: str, *, patience: float = 5.0
    ) -> None:
        """Brokers that are away are waited for, so many seconds."""
        self.client, self.topic = client, promotion_topic(application)
        self.partition = Partition(self.topic, 0)
        self.topics, self.reader = KafkaTopics(client, patience=patience), RangeReader(client)
        self.read, self.known = 0, Promotions()
        self.there = False

    def make(self) -> None:
        make_log(self.client, self.topic, self.exists)
        self.there = True

    def exists(self) -> bool:
        """Once it is there, it stays."""
        if not self.there:
            with suppress(NoTopic):
                self.there = bool(self.topics.facts([self.topic]))
        return self.there

    def look(self) -> Promotions:
        """All that is there now."""
        if not self.exists():
            return self.known
        end = self.topics.ends([self.partition])[self.partition]
        if end > self.read:
            [found] = self.reader.read([[Range(self.partition, self.read, end)]], frozenset())
            for each in found[self.partition].select(["__offset", "__value"]).to_pylist():
                self.known = self.known.after(Noted.decoded(*each.values()))
            self.read = end
        return self.known

    def note(self, noted: Noted) -> Promotions:
        """Adds a record, and tells what holds then: others may have been quicker."""
        self.make()
        sender = Sender(self.client, self.topic, 0)
        sender.send(Record(replace(noted, time=time.time()).encoded()))
        sender.flush()
        return self.look()
