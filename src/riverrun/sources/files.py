"""Topics from files of JSON lines: the input of `riverrun try` and of the test driver.

A line is the value, or an envelope {"key", "value", "timestamp", "partition", "headers"}. An empty
line ends a micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa

from riverrun import exact
from riverrun.control import ANSWER, Command
from riverrun.errors import InputError, RecordsGone
from riverrun.kafka.lines import LineFormat
from riverrun.kafka.records import Record, columns_of
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot
from riverrun.kernels.program import Program
from riverrun.partitions import Partition, Range, real
from riverrun.sources.admission import Ends
from riverrun.sources.planning import Offset, Planner, first_clocks
from riverrun.sources.records import lot_of, ranges_per_lot
from riverrun.sources.source import Circumstances, Source


@dataclass
class MemoryTopics(Source):
    """Records by partition, with the offsets at which batches end."""

    records: dict[Partition, list[Record]] = field(default_factory=dict)
    cuts: list[Ends] = field(default_factory=list)
    ended: bool = False
    """Whether the input ends after the last batch, so that every window closes."""
    asked: list[Command] = field(default_factory=list)
    """The control log."""
    replied: list[bytes] = field(default_factory=list)
    """What pages have answered to questions."""
    wall = False

    def commands(self, application: str, start: int, end: int) -> list[Command]:
        return self.asked[start:end]

    def answer(self, application: str, answers: list[Command]) -> None:
        known = [each.body for each in self.asked if each.kind == ANSWER]
        for each in answers:
            if each.body not in known:  # a batch that is run again says the same
                self.asked.append(replace(each, offset=len(self.asked)))

    def reply(self, application: str, parts: list[bytes]) -> None:
        self.replied += parts

    def append(self, topic: str, record: Record) -> None:
        self.records.setdefault(Partition(topic, record.partition or 0), []).append(record)

    def ends(self) -> Ends:
        return {partition: len(records) for partition, records in self.records.items()}

    def cut(self) -> None:
        """Ends a batch here."""
        self.cuts.append(self.ends())

    def planner(self, job: Circumstances) -> MemoryPlanner:
        return MemoryPlanner(job.program, self)

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        for group in ranges_per_lot(ranges):
            lot = lot_of({each.partition: self._read(each, with_headers) for each in group})
            if lot is not None:
                yield lot

    def _read(self, wanted: Range, with_headers: frozenset[str]) -> pa.Table:
        partition, start, end = wanted
        records = self.records.get(partition.real, [])
        if end > len(records):
            raise RecordsGone(
                "records that were still to be read are gone",
                where=partition,
                got=f"offsets {start} to {end - 1} of {len(records)} records",
            )
        chosen = records[start:end]
        columns = {
            "__value": [each.value for each in chosen],
            "__key": [each.key for each in chosen],
            "__timestamp": [each.timestamp or 0 for each in chosen],
            "__offset": range(start, end),
        }
        headers = [list(each.headers.items()) for each in chosen]
        return columns_of(columns, headers if partition.topic in with_headers else None)

    def originals(self, places: list[RecordPlace]) -> dict[RecordPlace, Original]:
        found = {}
        for place in places:
            records = self.records.get(Partition(place.topic, place.partition), [])
            if place.offset < len(records):
                found[place] = _original(records[place.offset])
        return found


@dataclass(frozen=True)
class FileTopics(Source):
    """Topics that are files, read when a process first needs them."""

    files: Mapping[str, Path]
    ended: bool
    wall = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Files travel as their names."""
        return FileTopics, (self.files, self.ended)

    @cached_property
    def topics(self) -> MemoryTopics:
        return replace(read_files(self.files), ended=self.ended)

    def planner(self, job: Circumstances) -> Planner:
        return self.topics.planner(job)

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        return self.topics.lots(ranges, with_headers)

    def originals(self, places: list[RecordPlace]) -> Mapping[RecordPlace, Original]:
        return self.topics.originals(places)

    def commands(self, application: str, start: int, end: int) -> list[Command]:
        return self.topics.commands(application, start, end)

    def answer(self, application: str, answers: list[Command]) -> None:
        self.topics.answer(application, answers)

    def reply(self, application: str, parts: list[bytes]) -> None:
        self.topics.reply(application, parts)


class MemoryPlanner(Planner):
    """Plans batches over topics in memory: one per cut, and one for the end."""

    def __init__(self, program: Program, topics: MemoryTopics) -> None:
        self.program, self.topics = program, topics

    def first(self) -> Offset:
        return Offset({}, clocks=first_clocks(self.program))

    def stop_at_end(self) -> None:
        pass

    def next(self, start: Offset) -> Offset:
        number = start.batch
        if number < len(self.topics.cuts):
            ends = under_each_name(self.topics.cuts[number], self.program.topics)
            return Offset(ends, batch=number + 1)
        if self.topics.ended and not start.ended:
            return Offset(start.ends, batch=number + 1, ended=True)
        return start


def under_each_name(ends: Ends, topics: Iterable[str]) -> Ends:
    """Where each reading of a topic ends, of what is kept once; others stay as they are."""
    names: dict[str, list[str]] = {}
    for topic in topics:
        names.setdefault(real(topic), []).append(topic)
    return {
        partition._replace(topic=name): end
        for partition, end in ends.items()
        for name in names.get(partition.topic, [partition.topic])
    }


def _original(record: Record) -> Original:
    headers = [(name, value.encode()) for name, value in record.headers.items()]
    return Original(record.key, record.value, record.timestamp or 0, list(headers))


def parse_record(text: str) -> Record:
    """A line of a file as a record; what is not JSON is kept as it is."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return Record(text.encode(errors="surrogateescape"))
    return LineFormat().parse(text)


def as_bytes(value: Any) -> bytes | None:
    """Text stays as it is, null is a tombstone, everything else is written as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else exact.dumps(value, ensure_ascii=True)
    return text.encode()


def read_files(files: Mapping[str, Path]) -> MemoryTopics:
    """Topics from their files; the n-th batch of each file is part of the n-th batch."""
    batches = {topic: _batches(path) for topic, path in files.items()}
    topics = MemoryTopics()
    for number in range(max((len(each) for each in batches.values()), default=0)):
        for topic, each in batches.items():
            for record in each[number] if number < len(each) else ():
                topics.append(topic, record)
        topics.cut()
    return topics


def _batches(path: Path) -> list[list[Record]]:
    try:
        text = path.read_text(errors="surrogateescape")
    except OSError as error:
        raise InputError("an input file cannot be read", got=f"{path}: {error.strerror}") from error
    batches: list[list[Record]] = [[]]
    for number, line in enumerate(StringIO(text), start=1):  # splitlines knows other ends, too
        if not line.strip():
            batches.append([])
            continue
        try:
            batches[-1].append(parse_record(line.rstrip("\n")))
        except InputError as error:
            raise InputError(error.fact, where=f"{path}:{number}", got=error.got) from error
    return batches if batches[-1] else batches[:-1]
