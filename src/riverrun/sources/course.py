"""How event time goes in partitions, so that a backfill reads all of them up to the same time.

Of each partition it is known how far its time has come, and over how many records it came that far.
From that follows how many more lead to a given time. The guess is mended by every batch, and no
batch relies on it for much further than it was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from riverrun.partitions import Partition

Places = Mapping[Partition, int]

FURTHER = 16
"""How many times as far as time was seen to go a batch may lead."""

FADES = 0.5
"""What a batch still tells of how time goes, of what it told one batch before."""

BELIEVED = 86_400_000_000
"""Microseconds that an event may be ahead of the wall clock. One broken clock of a device would
hold its partition until all others are read."""


class Pace(NamedTuple):
    """So many records were read while event time came so far."""

    records: float
    moved: float

    def after(self, records: int, moved: int) -> Pace:
        return Pace(records + FADES * self.records, moved + FADES * self.moved)


@dataclass
class Course:
    highs: dict[Partition, int] = field(default_factory=dict)
    """The highest event times that were read."""
    standing: dict[Partition, int] = field(default_factory=dict)
    """Where reading stood when they were noted."""
    read: set[Partition] = field(default_factory=set)
    """Partitions of which something was read since it is watched."""
    paces: dict[Partition, Pace] = field(default_factory=dict)

    def note(self, standing: Places, highs: Places, tick: int) -> None:
        """Reading stands there, and event times have come so far; `tick` is the wall clock."""
        known = {p: high for p, high in highs.items() if high <= tick + BELIEVED}
        for partition, place in standing.items():
            records = place - self.standing.get(partition, place)
            if records > 0:
                self.read.add(partition)
            if records > 0 and partition in self.highs:
                moved = known.get(partition, self.highs[partition]) - self.highs[partition]
                before = self.paces.get(partition, Pace(0, 0))
                self.paces[partition] = before.after(records, max(moved, 0))
        self.standing = dict(standing)
        self.highs |= {p: max(high, self.highs.get(p, high)) for p, high in known.items()}

    def unknown(self, partition: Partition) -> bool:
        """Whether some of its records would tell how its time goes."""
        if partition not in self.read:
            return True
        return partition in self.highs and partition not in self.paces

    def followed(self, partition: Partition) -> bool:
        """Whether it is known how its time goes. It is not where records have no time that can be
        believed, or all have the same."""
        return partition in self.paces and self.paces[partition].moved >= 1

    def next(self, left: Mapping[Partition, int], most: int) -> dict[Partition, int]:
        """How many of the records that are left of each partition lead to about the same time, and
        are `most` together, or fewer: a guess is not believed for long."""
        if not left:
            return {}
        low = min(self.highs[p] for p in left)
        high = max(self._time_of(p, count) for p, count in left.items())
        while high - low > 1:
            middle = (low + high) // 2
            enough = sum(self._until(middle, left).values()) >= most
            low, high = (low, middle) if enough else (middle, high)
        known = min(self.highs[p] + int(FURTHER * self.paces[p].moved) for p in left)
        return self._until(min(high, known), left)

    def _time_of(self, partition: Partition, records: int) -> int:
        """How far so many more records lead."""
        pace = self.paces[partition]
        return self.highs[partition] + int(records * pace.moved / pace.records) + 1

    def _until(self, time: int, left: Mapping[Partition, int]) -> dict[Partition, int]:
        """How many records lead there; at least one of each that is not there yet."""
        ahead = {p: max(time - self.highs[p], 0) / self.paces[p].moved for p in left}
        return {p: min(ceil(ahead[p] * self.paces[p].records), left[p]) for p in left}


@dataclass
class Arrivals:
    """When the end of each partition was first seen where it is, by the tick."""

    seen: dict[Partition, tuple[int, int]] = field(default_factory=dict)

    def note(self, ends: Places, tick: int) -> None:
        new = {p: (end, tick) for p, end in ends.items()}
        kept = {p: known for p, known in self.seen.items() if known[0] == ends.get(p)}
        self.seen = new | kept

    def of_last(self, begin: Places, read: Places, tick: int) -> dict[Partition, int]:
        """Of partitions that a batch reads to their end: when it came, if that is before."""
        return {
            p: at
            for p, (end, at) in self.seen.items()
            if p in begin and begin[p] < read[p] == end and at < tick
        }
