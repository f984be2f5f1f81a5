"""The first record of a time, for those who read committed records only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from riverrun.kafka.ranges import RangeReader
from riverrun.partitions import Partition, Range

FEWEST, MOST = 100, 100_000
"""Offsets that are looked at together, at first and at most."""


def first_at(
    client: Mapping[str, str], ranges: Mapping[Partition, tuple[int, int]], milliseconds: int
) -> dict[Partition, int]:
    """In ranges that begin where a broker says that a time does: it goes by marks of commits and
    records of aborted transactions, too, whose times may be later than those of what follows."""
    reader = RangeReader(client)
    return {
        partition: _first(reader, Range(partition, *each), milliseconds)
        for partition, each in ranges.items()
    }


def _first(reader: RangeReader, whole: Range, milliseconds: int) -> int:
    partition, start, end = whole
    count = FEWEST
    while start < end:
        stop = min(start + count, end)
        for found in reader.read([[Range(partition, start, stop)]]):
            rows = found[partition]
            [fits] = np.nonzero(rows["__timestamp"].to_numpy() >= milliseconds)
            if len(fits):
                return int(rows["__offset"][int(fits[0])].as_py())
        start, count = stop, min(2 * count, MOST)
    return end
