"""Topics copied into their archive: committed records, from where it ends to where the topic ends.

A file gets its name when it is whole, and the next one begins after the last that has a name. So a
process that is killed leaves nothing that counts, and the next one goes on as if it had stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from riverrun.archive.files import TIMESTAMP_TYPE, Draft, require_readable
from riverrun.archive.folder import Piece, TopicArchive
from riverrun.errors import InputError, RecordsGone, TopicError
from riverrun.kafka.consuming import Consuming, PublicConsuming
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import OUTAGE, KafkaTopics
from riverrun.partitions import Partition, Range

FILE = 128 << 20
"""Bytes of records after which a file is whole."""

Progress = Callable[[int, int], None]
"""How many offsets are copied, of how many."""


@dataclass
class Copied:
    """What has become of a partition."""

    partition: Partition
    start: int
    end: int
    """Offsets from which and to which it was copied, gaps included."""
    records: int = 0
    files: int = 0
    bytes: int = 0
    """Of the files."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Offsets from which and to which records were deleted before they could be copied."""


class Whole(PublicConsuming):
    """Records with all that Kafka has of them."""

    def columns(self, messages: list[Message]) -> pa.Table:
        kinds = np.fromiter((each.timestamp()[0] for each in messages), np.int8, len(messages))
        return super().columns(messages).append_column(TIMESTAMP_TYPE, pa.array(kinds))


class WholeRanges(RangeReader):
    def consumer(self, *, headers: bool) -> Consuming:
        if headers not in self.consumers:
            self.consumers[headers] = Whole(self.client, headers=True)
        return self.consumers[headers]


class Archiver:
    """Copies topics into the folder of an archive."""

    def __init__(self, client: Mapping[str, str], root: Path, *, file_bytes: int = FILE) -> None:
        self.root, self.file_bytes = root, file_bytes
        self.topics = KafkaTopics(client, patience=OUTAGE)
        self.ranges = WholeRanges(client)
        self.stopped = False

    def stop(self) -> bool:
        """The file that is being written ends where it is; False if that was asked before."""
        before, self.stopped = self.stopped, True
        return not before

    def copy(self, topics: Sequence[str], progress: Progress) -> list[Copied]:
        """All that there is now and is not archived yet, partition by partition."""
        todo = [each for topic in topics for each in self._todo(topic)]
        total, done, found = sum(each.end - each.start for each in todo), 0, []
        for wanted in todo:
            copied = Copied(wanted.partition, wanted.start, wanted.start)
            found.append(copied)
            at = partial(_at, progress, done - wanted.start, total)
            while copied.end < wanted.end and not self.stopped:
                self._go_on(copied, wanted.end, at)
            done += wanted.end - wanted.start
        return found

    def _todo(self, topic: str) -> list[Range]:
        facts, archive = self.topics.facts([topic])[topic], TopicArchive(self.root, topic)
        archive.begin(facts.id)
        partitions = [Partition(topic, number) for number in range(facts.partitions)]
        starts, ends = self.topics.starts(partitions), self.topics.ends(partitions)
        found = []
        for each in partitions:
            pieces = archive.pieces(each.number)
            if pieces and not pieces[-1].gap:
                _require_whole(pieces[-1], starts[each])
            start = pieces[-1].end if pieces else starts[each]
            if start > ends[each]:
                raise TopicError(
                    "a partition holds fewer records than are archived", where=each,
                    got=f"archived up to {start - 1}, its end is {ends[each]}",
                    hint="did brokers lose records? keep that archive elsewhere",
                )  # fmt: skip
            found.append(Range(each, start, ends[each]))
        return found

    def _go_on(self, copied: Copied, last: int, at: Callable[[int], None]) -> None:
        """One file more, or a gap."""
        archive, number = TopicArchive(self.root, copied.partition.topic), copied.partition.number
        first = self._first(copied.partition)
        if first > copied.end:
            self._require_same(archive)
            archive.note_gap(number, copied.end, first)
            copied.gaps.append((copied.end, first))
            copied.end = first
            return
        draft = Draft(archive.partition(number), copied.end)
        try:
            self._fill(draft, Range(copied.partition, copied.end, last), at)
            self._require_same(archive)
            if draft.end > draft.start:
                copied.bytes += draft.finish().path.stat().st_size
                copied.files += 1
        finally:
            draft.drop()
        copied.end, copied.records = draft.end, copied.records + draft.records

    def _fill(self, draft: Draft, wanted: Range, at: Callable[[int], None]) -> None:
        try:
            for rows, end in self.ranges.as_it_comes(wanted):
                draft.add(rows, end)
                at(end)
                if draft.bytes >= self.file_bytes or self.stopped:
                    return
        except RecordsGone:
            # retention was faster: what was read is kept, and the next look finds the gap
            if draft.end == draft.start and self._first(wanted.partition) <= draft.start:
                raise

    def _require_same(self, archive: TopicArchive) -> None:
        """A topic that was deleted and made again meanwhile has the same offsets."""
        archive.require(self.topics.facts([archive.topic])[archive.topic].id)

    def _first(self, partition: Partition) -> int:
        return self.topics.starts([partition])[partition]


def _require_whole(last: Piece, first: int) -> None:
    """If its last file is broken: what a partition has from `first` on can be archived again."""
    try:
        require_readable(last.path)
    except InputError as error:
        again = "or delete it: the topic still has its records, and they are archived once more"
        gone = f"the topic has none before offset {first} any more"
        hint = f"{error.hint}; {again if first <= last.start else gone}"
        raise InputError(error.fact, where=error.where, got=error.got, hint=hint) from error


def _at(progress: Progress, before: int, total: int, offset: int) -> None:
    progress(before + offset, total)
