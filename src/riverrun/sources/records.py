"""Raw records as lots: columns of Arrow, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from riverrun.kafka.records import Columns
from riverrun.kernels.lots import Lot
from riverrun.partitions import Partition, Range

LOT = 1 << 18
"""Most records of a lot. What is in a lot follows from the ranges alone, so a range read again
gives the same lots."""

HEADERS = pa.map_(pa.string(), pa.string())


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


def lot_of(found: Mapping[Partition, Columns]) -> Lot | None:
    """The records of a topic's partitions as one lot; None if there are none."""
    parts = [(each.number, found[each]) for each in sorted(found) if found[each].offsets]
    if not parts:
        return None
    numbers = [number for number, part in parts for _ in part.offsets]
    columns = {
        "__value": pa.array([value for _, part in parts for value in part.values], pa.binary()),
        "__key": pa.array([key for _, part in parts for key in part.keys], pa.binary()),
        "__timestamp": pa.array([at for _, part in parts for at in part.timestamps], pa.int64()),
        "__partition": pa.array(numbers, pa.int32()),
        "__offset": pa.array([offset for _, part in parts for offset in part.offsets], pa.int64()),
    }
    if parts[0][1].headers is not None:
        headers = [unique_headers(each) for _, part in parts for each in part.headers or ()]
        columns["__headers"] = pa.array(headers, HEADERS)
    return Lot(next(iter(found)).topic, pa.table(columns))


def unique_headers(
    headers: Mapping[str, Any] | Sequence[tuple[str, Any]] | None,
) -> list[tuple[str, str | None]]:
    """The last value of each name, as text."""
    found: dict[str, str | None] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return list(found.items())
