"""Raw records as lots: columns of Arrow, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from riverrun.columns import HEADERS
from riverrun.kernels.lots import Lot
from riverrun.partitions import Partition, Range

LOT = 1 << 18
"""Most records of a lot. What is in a lot follows from the ranges alone, so a range read again
gives the same lots."""

HEADER_TEXTS = pa.map_(pa.string(), pa.string())


def ranges_per_lot(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Ranges in groups of one topic and at most LOT records, in order of topic and partition. A
    group has one range of a partition: those that touch are one."""
    group: list[Range] = []
    room = LOT
    for partition, start, end in _joined(ranges):
        place = start
        while place < end:
            if group and (room == 0 or not _together(group[-1].partition, partition)):
                yield group
                group, room = [], LOT
            stop = min(end, place + room)
            group.append(Range(partition, place, stop))
            room -= stop - place
            place = stop
    if group:
        yield group


def _joined(ranges: Sequence[Range]) -> list[Range]:
    found: list[Range] = []
    for each in sorted(ranges):
        if found and (found[-1].partition, found[-1].end) == (each.partition, each.start):
            found[-1] = found[-1]._replace(end=each.end)
        else:
            found.append(each)
    return found


def _together(one: Partition, other: Partition) -> bool:
    return one.topic == other.topic and one != other


def lot_of(found: Mapping[Partition, pa.Table]) -> Lot | None:
    """The records of a topic's partitions as one lot; None if there are none."""
    parts = [_in_partition(found[each], each.number) for each in sorted(found)]
    records = pa.concat_tables(parts)
    if not records.num_rows:
        return None
    if HEADERS in records.column_names:
        texts = [unique_headers(each) for each in records[HEADERS].to_pylist()]
        place = records.column_names.index(HEADERS)
        records = records.set_column(place, HEADERS, pa.array(texts, HEADER_TEXTS))
    return Lot(next(iter(found)).topic, records)


def _in_partition(records: pa.Table, number: int) -> pa.Table:
    numbers = pa.array(np.full(records.num_rows, number, np.int32))
    return records.add_column(3, "__partition", numbers)


def unique_headers(headers: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, str | None]]:
    """The last value of each name, as text."""
    found: dict[str, str | None] = {}
    for each in headers or ():
        value = each["value"]
        found[each["name"]] = None if value is None else value.decode(errors="replace")
    return list(found.items())
