"""The control log as a topic: never compacted, kept for ever, in one partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from riverrun.control import Command, control_topic
from riverrun.errors import TopicError
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range

KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def make_log(client: Mapping[str, str], topic: str, exists: Callable[[], bool]) -> None:
    """Makes a topic that is kept for ever if it is missing; others may do so at the same time."""
    if exists():
        return
    try:
        admin.create_topic(client, topic, partitions=1, config=KEPT)
    except TopicError:
        if not exists():
            raise


class ControlLog:
    """The commands of one application."""

    def __init__(self, client: Mapping[str, str], application: str) -> None:
        self.client, self.topic = client, control_topic(application)
        self.partition = Partition(self.topic, 0)

    def make(self) -> None:
        make_log(self.client, self.topic, self.exists)

    def exists(self) -> bool:
        return admin.exists(self.client, self.topic)

    def send(self, *commands: Command) -> int:
        """Adds commands; returns the offset up to which it has to be read for them to have taken
        effect."""
        self.make()
        sender = Sender(self.client, self.topic)
        for command in commands:
            sender.send(Record(command.encoded()))
        sender.flush()
        return self.end()

    def end(self) -> int:
        return KafkaTopics(self.client).ends([self.partition])[self.partition]

    def commands(self, start: int, end: int) -> list[Command]:
        if start >= end:
            return []
        [read] = RangeReader(self.client).read([[Range(self.partition, start, end)]], frozenset())
        found = read[self.partition].select(["__offset", "__value"]).to_pylist()
        return [Command.decoded(*each.values()) for each in found]
