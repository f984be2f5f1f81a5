"""What a replay reads: from where to where, what of it is in the archive, and what is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from riverrun.archive.folder import TopicArchive, runs_of_records
from riverrun.archive.held import Held
from riverrun.archive.reading import kept_at_time
from riverrun.durations import milliseconds_of
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.kafka.compaction import compacted
from riverrun.kafka.first_at import first_at
from riverrun.kafka.topics import KafkaTopics, TopicFacts
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import Partition, as_texts, from_files, real
from riverrun.sources.admission import Ends
from riverrun.sources.span import Span

BEGINNING = "beginning"


@dataclass(frozen=True)
class Asked:
    """What is to be read: a time, or offsets of partitions, or neither for all there is."""

    start: str | None = None
    """Of records, as ISO 8601; None: from the beginning, but for the offsets."""
    end: str | None = None
    begins: tuple[tuple[str, int], ...] = ()
    """Offsets of some partitions, which have the last word."""
    ends: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(starts: Sequence[str], ends: Sequence[str]) -> Asked:
        """As given on a command line: times, or `topic/0=1200`."""
        start, begins = _parsed(starts, "--from")
        end, until = _parsed(ends, "--to")
        return Asked(None if start == BEGINNING else start, end, begins, until)

    @staticmethod
    def up_to(point: Sequence[str], option: str) -> Asked:
        """From the beginning to a time, or to offsets."""
        end, until = _parsed(point, option)
        return Asked(end=end, ends=until)


def _parsed(given: Sequence[str], option: str) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    times = [each for each in given if "=" not in each]
    if len(times) > 1:
        raise InputError(f"{option} has one time", got=", ".join(times))
    for each in times:
        if each != BEGINNING:
            milliseconds_of(each, option)
    return (times[0] if times else None), tuple(_place(e, option) for e in given if "=" in e)


def _place(text: str, option: str) -> tuple[str, int]:
    partition, _, offset = text.rpartition("=")
    topic, _, number = partition.rpartition("/")
    if not (topic and number.isdecimal() and offset.isdecimal()):
        raise InputError(
            f"{option} is a time or an offset", got=repr(text),
            hint="such as 2026-01-31T12:00:00Z, or orders/0=1200",
        )  # fmt: skip
    return partition, int(offset)


def span_of(
    sources: Sequence[ReadTopic], client: Mapping[str, str], asked: Asked, root: Path | None
) -> tuple[Span, list[str]]:
    """From where to where is read, and what is gone of it. Tables are read from their beginning:
    what happens later meets them as they stood. `root` is the archive's folder; without one, what
    topics no longer hold is gone."""
    found = _Found(KafkaTopics(client), asked, root)
    kafka = [each for each in sources if not from_files(each.topic)]
    facts = found.topics.facts([each.topic for each in kafka])
    for source in kafka:
        found.add(source, facts[source.topic])
    known = as_texts({each.real: 0 for each in found.begins})
    for name, _ in (*asked.begins, *asked.ends):
        if name not in known:
            raise InputError(
                "the program reads no such partition", got=name,
                hint=f"it reads {', '.join(known)}",
            )  # fmt: skip
    return Span(found.begins, found.ends, found.archived), found.lost


@dataclass(frozen=True)
class History:
    """What there is of a partition: in the topic, and before that in the archive."""

    partition: Partition
    first: int
    """The topic's first offset, and the one after its last."""
    last: int
    parts: tuple[tuple[int, int], ...] = ()
    """Of the archive, from and to which offset; those that begin before the topic does."""

    @property
    def beginning(self) -> int:
        return self.parts[0][0] if self.parts else self.first

    def held(self) -> Held:
        """The archive is read as far as it goes: the topic may lose more while it is read."""
        return Held(self.parts, max(self.first, self.parts[-1][1]))

    def losses(self, begin: int, end: int, *, given: bool) -> Iterator[str]:
        """What is gone of a range. Where a time or nothing was given, and it begins with the first
        record that there is, there may have been others before."""
        missing = begin < self.beginning if given else begin == self.beginning > 0
        if missing:
            yield (
                f"{self.partition} begins at offset {self.beginning}: retention has deleted what "
                "was before"
            )
        for (_, low), (high, _) in pairwise([*self.parts, (self.first, self.last)]):
            if max(low, begin) < min(high, end):
                yield (
                    f"{self.partition} has no offsets {low} to {high - 1}: retention had deleted "
                    "them before they were archived"
                )


@dataclass
class _Found:
    """What is known so far, topic by topic."""

    topics: KafkaTopics
    asked: Asked
    root: Path | None
    begins: Ends = field(default_factory=dict)
    ends: Ends = field(default_factory=dict)
    archived: dict[Partition, Held] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def add(self, source: ReadTopic, facts: TopicFacts) -> None:
        parts = [Partition(source.topic, number) for number in range(facts.partitions)]
        first, last = self.topics.starts(parts), self.topics.ends(parts)
        since = _milliseconds(None if source.table_key else self.asked.start)
        until = _milliseconds(self.asked.end)
        start = first if since is None else first_at(self.topics, parts, since)
        stop = last if until is None else first_at(self.topics, parts, until)
        given, ends = dict(self.asked.begins), dict(self.asked.ends)
        # of a compacted table the last row of each key is there, wherever it begins
        whole = bool(source.table_key and any(first.values()) and self._compacted(source.topic))
        for each in parts:
            name, there = str(each.real), History(each.real, first[each], last[each])
            wanted = given.get(name, start[each])
            # a broker may say that there is no such time, of one whose records it has deleted
            inside = there.first < wanted < there.last
            if there.first > 0 and not inside and not whole:
                there = self._with_archive(there, facts.id)
            begin = given.get(name, self._at(there, since, there.beginning, start[each]))
            end = ends.get(name, self._at(there, until, stop[each], stop[each]))
            self.begins[each] = max(begin, there.beginning)
            self.ends[each] = max(min(end, there.last), self.begins[each])
            if self.begins[each] < there.first:
                self.archived[there.partition] = there.held()
            if not whole:
                self.lost += there.losses(begin, self.ends[each], given=name in given)

    def _compacted(self, topic: str) -> bool:
        return compacted(admin.settings(self.topics.client, real(topic)))

    def _with_archive(self, there: History, identity: str) -> History:
        if self.root is None:
            return there
        archive = TopicArchive(self.root, there.partition.topic)
        if not archive.exists():
            return there
        archive.require(identity)
        parts = runs_of_records(archive.pieces(there.partition.number))
        return replace(there, parts=tuple(each for each in parts if each[0] < there.first))

    def _at(self, there: History, time: int | None, otherwise: int, in_topic: int) -> int:
        """The first offset of a time, if one is asked for: what is archived was there before."""
        if time is None:
            return otherwise
        if self.root is None or not there.parts:
            return in_topic
        archive = TopicArchive(self.root, there.partition.topic)
        found = kept_at_time(archive, there.partition.number, time)
        return in_topic if found is None else found


def _milliseconds(moment: str | None) -> int | None:
    return None if moment is None else milliseconds_of(moment)
