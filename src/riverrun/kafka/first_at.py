"""The first record of a time, for those who read committed records only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition, Range

FEWEST, MOST = 100, 100_000
"""Offsets that are looked at together, at first and at most."""


def first_at(
    topics: KafkaTopics, partitions: Sequence[Partition], milliseconds: int
) -> dict[Partition, int]:
    """From where brokers say that a time begins: they go by marks of commits and records of aborted
    transactions, too, whose times may be later than those of what follows. The end if none is."""
    said, ends = topics.at_time(partitions, milliseconds), topics.ends(partitions)
    reader = RangeReader(topics.client)
    return {
        partition: _first(reader, Range(partition, said[partition], ends[partition]), milliseconds)
        for partition in partitions
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
