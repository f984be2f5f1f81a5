"""Topics from files of JSON lines: the input of `riverrun try` and of the test driver.

A line is the value, or an envelope {"key", "value", "timestamp", "partition", "headers"}. An empty
line ends a micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riverrun.connectors.lines import LineFormat, Record
from riverrun.connectors.records import Columns, Range, lot_of, ranges_per_lot
from riverrun.errors import InputError
from riverrun.event_time import partition_name, topic_of
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot


@dataclass
class MemoryTopics:
    """Records by partition, with the offsets at which batches end."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    cuts: list[dict[str, int]] = field(default_factory=list)

    def append(self, topic: str, record: Record) -> None:
        name = partition_name(topic, record.partition or 0)
        self.records.setdefault(name, []).append(record)

    def cut(self) -> None:
        """Ends a batch here."""
        self.cuts.append({name: len(records) for name, records in self.records.items()})

    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        """The records of the ranges, in lots. `with_headers` names topics."""
        for group in ranges_per_lot(ranges):
            found: dict[str, Columns] = {}
            for name, start, end in group:
                headers: list[Any] | None = [] if topic_of(name) in with_headers else None
                columns = found.setdefault(name, Columns(headers=headers))
                for offset in range(start, end):
                    _append(columns, offset, self.records[name][offset])
            lot = lot_of(found)
            if lot is not None:
                yield lot

    def originals(self, places: list[RecordPlace]) -> dict[RecordPlace, Original]:
        return {
            place: _original(
                self.records[partition_name(place.topic, place.partition)][place.offset]
            )
            for place in places
        }


def _original(record: Record) -> Original:
    headers = [(name, value.encode()) for name, value in record.headers.items()]
    return Original(record.key, record.value, record.timestamp or 0, list(headers))


def _append(columns: Columns, offset: int, record: Record) -> None:
    columns.offsets.append(offset)
    columns.values.append(record.value)
    columns.keys.append(record.key)
    columns.timestamps.append(record.timestamp or 0)
    if columns.headers is not None:
        columns.headers.append(list(record.headers.items()))


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
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


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
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            batches.append([])
            continue
        try:
            batches[-1].append(parse_record(line))
        except InputError as error:
            raise InputError(error.fact, where=f"{path}:{number}", got=error.got) from error
    return batches if batches[-1] else batches[:-1]
