"""Names of what keeps time: partitions, the producers of a topic, and those that are forgotten.

As text, which is how they are logged and shown, they are `topic/0`, `topic:producer` and `topic`.
No topic's name has a colon or a slash, so a producer may be called anything. A topic that a program
reads more than once has a name for each reading, `topic~name`; no topic's name has a tilde either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

_TEXT = re.compile("([^/:]*)([/:]?)(.*)", re.DOTALL)
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


class Producer(NamedTuple):
    topic: str
    name: str

    def __str__(self) -> str:
        return f"{self.topic}:{self.name}"


class Forgotten(NamedTuple):
    """The producers of a topic that have fallen silent, all in one."""

    topic: str

    def __str__(self) -> str:
        return self.topic


TimeKeeper = Partition | Producer | Forgotten


def keeper_of(text: str) -> TimeKeeper:
    found = _TEXT.fullmatch(text)
    assert found is not None
    topic, sign, rest = found.groups()
    if sign == "/":
        return Partition(topic, int(rest))
    return Producer(topic, rest) if sign else Forgotten(topic)


def partition_of(text: str) -> Partition:
    found = keeper_of(text)
    assert isinstance(found, Partition)
    return found


def as_texts(places: Mapping[Partition, T]) -> dict[str, T]:
    """As JSON has them."""
    return {str(partition): place for partition, place in places.items()}


def from_texts(places: Mapping[str, T]) -> dict[Partition, T]:
    return {partition_of(text): place for text, place in places.items()}
