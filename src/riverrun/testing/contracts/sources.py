"""What every source must hold: ranges give their records, again and again, whatever the cut."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from riverrun.app import App
from riverrun.errors import RecordsGone
from riverrun.kafka.records import Record
from riverrun.kernels.letters import RecordPlace
from riverrun.kernels.program import Program
from riverrun.partitions import Partition, Range
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, tasks
from riverrun.sources.source import Circumstances, Source

Held = Mapping[Partition, Sequence[Record]]


class SourceContract(ABC):
    """Derive a class whose name begins with `Test`, and say how a source gets its records."""

    @abstractmethod
    def source(self, held: Held) -> Source:
        """A source whose partitions hold these records, at offsets from 0 on."""

    @abstractmethod
    def lost(self, source: Source, partition: Partition) -> Range:
        """Makes records of the partition go, and gives a range that begins with one of them."""

    def test_ranges_give_exactly_their_records_in_order_whatever_the_cut(self) -> None:
        held = _held("cut")
        source = self.source(held)
        one, two = held
        for cuts in ([0, 30], [0, 1, 30], [0, 7, 8, 19, 30]):
            pieces = [
                Range(each, start, end) for each in (two, one) for start, end in pairwise(cuts)
            ]
            assert _read(source, pieces) == _expected(held, Range(one, 0, 30), Range(two, 0, 30))
        assert _read(source, [Range(two, 5, 9)]) == _expected(held, Range(two, 5, 9))
        apart = [Range(two, 5, 9), Range(two, 20, 22)]
        assert _read(source, apart) == _expected(held, *apart)
        assert _read(source, [Range(two, 5, 5)]) == []

    def test_lots_are_the_same_when_they_are_read_again(self) -> None:
        held = _held("again")
        source, ranges = self.source(held), [Range(each, 3, 28) for each in held]
        first, second = (list(source.lots(ranges, frozenset())) for _ in range(2))
        assert [lot.topic for lot in first] == [lot.topic for lot in second]
        for one, other in zip(first, second, strict=True):
            assert one.records.equals(other.records)

    def test_headers_come_with_the_topics_that_ask_for_them(self) -> None:
        held = _held("marked")
        source, [one, _] = self.source(held), list(held)
        [plain] = source.lots([Range(one, 0, 2)], frozenset())
        assert "__headers" not in plain.records.column_names
        [lot] = source.lots([Range(one, 0, 2)], frozenset({one.topic}))
        assert lot.records["__headers"].to_pylist() == [[("n", "0")], [("n", "1")]]

    def test_originals_are_found_as_they_were_written_and_others_are_left_out(self) -> None:
        held = _held("found")
        source, [one, two] = self.source(held), list(held)
        wanted = [RecordPlace(*one, 3), RecordPlace(*two, 29), RecordPlace(*two, 4)]
        found = source.originals(wanted)
        assert set(found) == set(wanted)
        for place, original in found.items():
            record = held[Partition(place.topic, place.partition)][place.offset]
            assert (original.key, original.value) == (record.key, record.value)
            assert original.timestamp == record.timestamp
            assert original.headers == [(n, h.encode()) for n, h in record.headers.items()]
        gone = self.lost(source, one)
        assert source.originals([RecordPlace(*one, gone.start)]) == {}

    def test_records_that_are_gone_are_an_error_with_a_type(self) -> None:
        held = _held("gone")
        source = self.source(held)
        with pytest.raises(RecordsGone):
            list(source.lots([self.lost(source, next(iter(held)))], frozenset()))

    def test_planning_goes_on_from_the_logged_offset_and_reads_each_record_once(
        self, tmp_path: Path
    ) -> None:
        held = _held("planned")
        source, [one, two] = self.source(held), list(held)
        job = Circumstances(_program(one.topic), Pacer(16, None), lambda: None, tmp_path)
        found: list[dict[str, Any]] = []
        offset = source.planner(job).first()
        for _ in range(20):
            planner, again = source.planner(job), source.planner(job)
            for each in (planner, again):
                each.stop_at_end()
            end = planner.next(offset)
            assert again.next(_logged(offset)).ends == end.ends
            if end == offset:
                break
            dealt = tasks(offset, end)
            assert tasks(_logged(offset), _logged(end)) == dealt
            found += [row for ranges in dealt for row in _read(source, ranges)]
            offset = _logged(end)
        whole = _expected(held, Range(one, 0, 30), Range(two, 0, 30))
        assert sorted(found, key=_place) == whole


def _held(topic: str) -> dict[Partition, list[Record]]:
    """Thirty records in each of two partitions of a new topic."""
    name = f"{topic}-{uuid4().hex[:8]}"
    return {Partition(name, number): [_record(number, n) for n in range(30)] for number in range(2)}


def _record(partition: int, n: int) -> Record:
    value = json.dumps({"n": n, "of": partition}, separators=(",", ":")).encode()
    return Record(value, f"k{n}".encode(), 1_000 + n, partition, {"n": str(n)})


def _expected(held: Held, *ranges: Range) -> list[dict[str, Any]]:
    return [
        {
            "__value": record.value, "__key": record.key, "__timestamp": record.timestamp,
            "__partition": partition.number, "__offset": start + number,
        }
        for partition, start, end in ranges
        for number, record in enumerate(held[partition][start:end])
    ]  # fmt: skip


def _read(source: Source, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    lots = source.lots(ranges, frozenset())
    return [row for lot in lots for row in lot.records.to_pylist()]


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["__partition"], row["__offset"]


def _logged(offset: Offset) -> Offset:
    """As it is after a restart."""
    return Offset.of(json.loads(json.dumps(offset.logged())))


def _program(topic: str) -> Program:
    app = App("contract")
    app.stream(topic, schema="n int").to("out")
    return app.program()
