"""Names of what keeps time: partitions, and the producers of a topic.

As text, which is how they are logged and shown, they are `topic/0` and `topic:producer`.
No topic's name has a colon or a slash, so a producer may be called anything. A topic that a program
reads more than once has a name for each reading, `topic~name`; no topic's name has a tilde either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")
NAMED = "~"
FILES = "files+"
"""Before the name of a stream of files, which stands for a topic's; no topic's name has it."""


def reading(topic: str, name: str | None) -> str:
    """What one of several readings of a topic is called, wherever its records are told apart."""
    return topic if name is None else f"{topic}{NAMED}{name}"


def real(topic: str) -> str:
    """The topic itself, of any reading of it."""
    return topic.partition(NAMED)[0]


def short(topic: str) -> str:
    """The name of a reading, without its topic if it has one of its own."""
    return topic.rpartition(NAMED)[2].removeprefix(FILES)


def from_files(topic: str) -> bool:
    """Whether what stands for a topic is a folder of files."""
    return topic.startswith(FILES)


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"

    @property
    def real(self) -> Partition:
        """The same of the topic itself."""
        return Partition(real(self.topic), self.number)


def counts(known: Iterable[Partition]) -> dict[str, int]:
    """How many partitions each topic has."""
    found: dict[str, int] = {}
    for each in known:
        found[each.topic] = max(found.get(each.topic, 0), each.number + 1)
    return found


class Range(NamedTuple):
    """The offsets from which and to which a partition is read."""

    partition: Partition
    start: int
    end: int


def producer_text(topic: str, name: str) -> str:
    """What a producer is called where partitions are called by their text."""
    return f"{topic}:{name}"


def partition_of(text: str) -> Partition:
    topic, _, number = text.partition("/")
    return Partition(topic, int(number))


def as_texts(places: Mapping[Partition, T]) -> dict[str, T]:
    """As JSON has them."""
    return {str(partition): place for partition, place in places.items()}


def from_texts(places: Mapping[str, T]) -> dict[Partition, T]:
    return {partition_of(text): place for text, place in places.items()}
