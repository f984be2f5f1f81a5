"""Raw records as lots: columns of Arrow, whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from riverrun.event_time import partition_of, topic_of
from riverrun.kernels.lots import Lot

LOT = 1 << 18
"""Most records of a lot. What is in a lot follows from the ranges alone, so a range read again
gives the same lots."""

HEADERS = pa.map_(pa.string(), pa.string())

Range = tuple[str, int, int]
"""A partition's name, and the offsets from which and to which it is read."""


@dataclass
class Columns:
    """Records of one partition, as lists."""

    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Any] | None = None
    """As they were read; None if they were not."""


def ranges_per_lot(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Ranges in groups of one topic and at most LOT records, in order of topic and partition."""
    group: list[Range] = []
    room = LOT
    for name, start, end in sorted(ranges):
        place = start
        while place < end:
            if group and (room == 0 or topic_of(group[-1][0]) != topic_of(name)):
                yield group
                group, room = [], LOT
            stop = min(end, place + room)
            group.append((name, place, stop))
            room -= stop - place
            place = stop
    if group:
        yield group


def lot_of(found: Mapping[str, Columns]) -> Lot | None:
    """The records of a topic's partitions as one lot; None if there are none."""
    parts = [(partition_of(name), found[name]) for name in sorted(found) if found[name].offsets]
    if not parts:
        return None
    places = [(number, offset) for number, part in parts for offset in part.offsets]
    values, garbled = _as_text([value for _, part in parts for value in part.values], places)
    columns = {
        "__value": values,
        "__key": pa.array([key for _, part in parts for key in part.keys], pa.binary()),
        "__timestamp": pa.array([at for _, part in parts for at in part.timestamps], pa.int64()),
        "__partition": pa.array([number for number, _ in places], pa.int32()),
        "__offset": pa.array([offset for _, offset in places], pa.int64()),
    }
    if parts[0][1].headers is not None:
        headers = [unique_headers(each) for _, part in parts for each in part.headers or ()]
        columns["__headers"] = pa.array(headers, HEADERS)
    return Lot(topic_of(next(iter(found))), pa.table(columns), garbled)


def _as_text(
    values: list[bytes | None], places: list[tuple[int, int]]
) -> tuple[pa.Array, dict[tuple[int, int], bytes]]:
    texts = pa.array(values, pa.binary()).cast(pa.string(), safe=False)
    try:
        texts.validate(full=True)
        return texts, {}
    except pa.ArrowInvalid:
        garbled = {
            place: value
            for place, value in zip(places, values, strict=True)
            if value is not None and not _readable(value)
        }
        clean = [v if p not in garbled else None for p, v in zip(places, values, strict=True)]
        return pa.array(clean, pa.string()), garbled


def _readable(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def unique_headers(
    headers: Mapping[str, Any] | Sequence[tuple[str, Any]] | None,
) -> list[tuple[str, str | None]]:
    """The last value of each name, as text."""
    found: dict[str, str | None] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return list(found.items())
