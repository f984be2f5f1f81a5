"""Ranges of offsets read from an archive first, then from the topic, as if it had all of them.

The archive stands where a client of Kafka stands: how ranges are cut into lots follows from the
records, and is the same wherever they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from riverrun.archive.files import first_at, records_of
from riverrun.archive.folder import TopicArchive
from riverrun.archive.held import Archived, Held
from riverrun.errors import RecordsGone
from riverrun.kafka.consuming import Consuming, Taken
from riverrun.kafka.librdkafka import Way
from riverrun.kafka.ranges import RangeReader
from riverrun.partitions import Partition


class ArchivedRanges(RangeReader):
    def __init__(self, client: Mapping[str, str], way: Way, archived: Archived) -> None:
        super().__init__(client, way)
        self.archived = archived

    def consumer(self, *, headers: bool) -> Consuming:
        if headers not in self.consumers:
            topic = super().consumer(headers=headers)
            self.consumers[headers] = ArchiveThenTopic(topic, self.archived, headers=headers)
        return self.consumers[headers]


class ArchiveThenTopic(Consuming):
    """Takes from the archive as long as it has something; only then the topic is read."""

    def __init__(self, topic: Consuming, archived: Archived, *, headers: bool) -> None:
        self.topic, self.root, self.held = topic, archived.root, dict(archived.held)
        self.headers = headers
        self.waiting: dict[Partition, Iterator[pa.Table]] = {}
        """What is to come from the archive."""
        self.rest: dict[Partition, pa.Table] = {}
        """What was read of it, and not taken yet."""
        self.later: dict[Partition, int] = {}
        """Where the topic is to be read from, afterwards."""

    def assign(self, places: Mapping[Partition, int]) -> None:
        self.rest, self.waiting, self.later = {}, {}, dict(places)
        for partition, offset in places.items():
            held = self.held.get(partition)
            if held is not None and offset < held.topic:
                self.waiting[partition] = self._from_archive(partition, held, offset)
                self.later[partition] = held.topic
        self.topic.assign({} if self.waiting else self.later)

    def _from_archive(self, partition: Partition, held: Held, offset: int) -> Iterator[pa.Table]:
        archive = TopicArchive(self.root, partition.topic)
        for start, end in held.parts:
            if offset < end:
                yield from kept_records(
                    archive, partition.number, max(start, offset), end, headers=self.headers
                )

    def drop(self, partitions: Collection[Partition]) -> None:
        begun = not self.waiting
        for each in partitions:
            for known in (self.waiting, self.rest, self.later):
                known.pop(each, None)
        if begun:
            self.topic.drop(partitions)
        elif not self.waiting:
            self.topic.assign(self.later)

    def take(self, most: int) -> Taken:
        while self.waiting:
            partition = next(iter(self.waiting))
            rows = self.rest.pop(partition, None)
            if rows is None:
                rows = next(self.waiting[partition], None)
            if rows is not None:
                if rows.num_rows > most:
                    self.rest[partition] = rows.slice(most)
                return Taken([(partition, rows.slice(0, most))], [], [])
            del self.waiting[partition]
            if not self.waiting:
                self.topic.assign(self.later)
        return self.topic.take(most)


def kept_records(
    archive: TopicArchive, number: int, start: int, end: int, *, headers: bool
) -> Iterator[pa.Table]:
    """The records of a range that the archive had when this was planned."""
    place = start
    for piece in archive.pieces(number):
        if piece.end <= place or piece.gap:
            continue
        if piece.start > place:
            break
        yield from records_of(piece.path, place, end, headers=headers)
        place = piece.end
        if place >= end:
            return
    raise RecordsGone(
        "records that were to be read from the archive are gone",
        where=archive.partition(number),
        got=f"offsets {place} to {end - 1} are not there any more",
        hint="put its files back",
    )


def kept_at_time(archive: TopicArchive, number: int, milliseconds: int) -> int | None:
    """The first offset of a partition at or after a time; None if the archive has none."""
    for piece in archive.pieces(number):
        found = None if piece.gap else first_at(piece.path, milliseconds)
        if found is not None:
            return found
    return None
