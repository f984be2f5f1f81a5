"""Streams of files beside topics: what is said and read of files comes from here, all else from
Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from riverrun.control import Command
from riverrun.errors import ProgramError
from riverrun.far import AnyPath
from riverrun.kafka.control import ControlLog
from riverrun.kafka.lag import LAG, LagBook
from riverrun.kafka.records import columns_of
from riverrun.kafka.topics import OUTAGE, KafkaTopics, TopicFacts
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot
from riverrun.kernels.program import Program
from riverrun.partitions import Partition, Range, from_files
from riverrun.schema import Schema
from riverrun.sources.admission import Ends
from riverrun.sources.folders.ledger import SETTLED, Entry, Ledger
from riverrun.sources.folders.rows import same, values
from riverrun.sources.kafka import KafkaPlanner, KafkaSource
from riverrun.sources.records import lot_of, ranges_per_lot
from riverrun.sources.source import Circumstances, Source

FILES = "files"
"""The folder of a checkpoint for what is known of files."""
FILE = "file"
"""The header that names a row's file."""


@dataclass(frozen=True)
class Folder:
    """What a stream of files reads."""

    pattern: str
    schema: Schema
    ledger: AnyPath


def folders(program: Program, checkpoint: AnyPath) -> dict[str, Folder]:
    return {
        each.topic: Folder(each.files, each.fields, checkpoint / FILES / f"{each.topic}.jsonl")
        for each in program.sources
        if each.files is not None
    }


@cache
def _ledger(file: AnyPath) -> Ledger:
    return Ledger(file)


@dataclass(frozen=True)
class WithFiles(Source):
    kafka: KafkaSource
    folders: Mapping[str, Folder]
    wall = True

    def planner(self, job: Circumstances) -> FilesPlanner:
        topics = TopicsAndFiles(self.kafka.client, self.folders)
        book = LagBook(job.program.name, topics.admin, job.folder / LAG)
        log = ControlLog(self.kafka.client, job.program.name)
        log.make()
        return FilesPlanner(job, topics, book, log)

    def commands(self, application: str, start: int, end: int) -> list[Command]:
        return self.kafka.commands(application, start, end)

    def answer(self, application: str, answers: list[Command]) -> None:
        self.kafka.answer(application, answers)

    def reply(self, application: str, parts: list[bytes]) -> None:
        self.kafka.reply(application, parts)

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        ours = [each for each in ranges if from_files(each.partition.topic)]
        yield from self.kafka.lots([each for each in ranges if each not in ours], with_headers)
        for group in ranges_per_lot(ours):
            lot = lot_of({each.partition: self._read(each, with_headers) for each in group})
            if lot is not None:
                yield lot

    def _read(self, wanted: Range, with_headers: frozenset[str]) -> pa.Table:
        folder = self.folders[wanted.partition.topic]
        parts, stamps, names = [], list[int](), list[str]()
        for entry, low, high in self._pieces(wanted):
            path = Path(entry.path)
            same(path, entry.size, entry.changed_at)
            parts.append(values(path, entry.places, low, high, folder.schema))
            stamps += [entry.changed_at // 1_000_000] * (high - low)
            names += [entry.path] * (high - low)
        found = pa.concat_arrays(parts)
        columns = {
            "__value": found,
            "__key": pa.nulls(len(found), pa.binary()),
            "__timestamp": stamps,
            "__offset": range(wanted.start, wanted.end),
        }
        headers = [[(FILE, name)] for name in names]
        return columns_of(columns, headers if wanted.partition.topic in with_headers else None)

    def _pieces(self, wanted: Range) -> Iterator[tuple[Entry, int, int]]:
        ledger = _ledger(self.folders[wanted.partition.topic].ledger)
        if ledger.end < wanted.end:
            ledger.load()
        return ledger.pieces(wanted.start, wanted.end)

    def originals(self, places: list[RecordPlace]) -> dict[RecordPlace, Original]:
        found = dict(self.kafka.originals([p for p in places if not from_files(p.topic)]))
        for place in places:
            if from_files(place.topic):
                partition = Partition(place.topic, place.partition)
                wanted = Range(partition, place.offset, place.offset + 1)
                [value] = self._read(wanted, frozenset())["__value"].to_pylist()
                [(entry, _, _)] = self._pieces(wanted)
                headers: list[tuple[str, bytes | None]] = [(FILE, entry.path.encode())]
                found[place] = Original(None, value, entry.changed_at // 1_000_000, headers)
        return found


class FilesPlanner(KafkaPlanner):
    def stop_at_end(self) -> None:
        time.sleep(SETTLED)  # what was written just now is there already
        super().stop_at_end()


class TopicsAndFiles(KafkaTopics):
    """What the planner asks: of files the folder is asked, of all else the cluster."""

    def __init__(self, client: Mapping[str, str], folders: Mapping[str, Folder]) -> None:
        super().__init__(client, patience=OUTAGE)
        self.folders = folders

    def facts(self, topics: list[str]) -> dict[str, TopicFacts]:
        ours = {t: TopicFacts(self.folders[t].pattern, 1) for t in topics if from_files(t)}
        return ours | super().facts([topic for topic in topics if topic not in ours])

    def ends(self, partitions: Iterable[Partition], *, committed: bool = True) -> Ends:
        ours, others = _split(partitions)
        found = {each: self._end(each.topic) for each in ours}
        return found | super().ends(others, committed=committed)

    def _end(self, topic: str) -> int:
        folder = self.folders[topic]
        ledger = _ledger(folder.ledger)
        ledger.look(folder.pattern)
        return ledger.end

    def starts(self, partitions: Iterable[Partition]) -> Ends:
        ours, others = _split(partitions)
        return dict.fromkeys(ours, 0) | super().starts(others)

    def at_time(self, partitions: Iterable[Partition], milliseconds: int) -> Ends:
        ours, others = _split(partitions)
        if ours:
            raise ProgramError(
                "files are read from the first on, or from now on",
                where=ours[0].topic,
                hint='start="earliest" or start="latest"; .where(…) leaves rows out',
            )
        return super().at_time(others, milliseconds)


def _split(partitions: Iterable[Partition]) -> tuple[list[Partition], list[Partition]]:
    given = list(partitions)
    ours = [each for each in given if from_files(each.topic)]
    return ours, [each for each in given if each not in ours]
