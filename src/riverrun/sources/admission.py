"""Admission: what a batch reads of each partition when there is more than fits.

Tables come first: a row that is joined with a table as it stands meets all that the table's topic
held when the batch was planned. Where that does not fit, a target is fixed for the table, and what
waits for it is held until the target is reached: by offset, never by a clock. The rest is read in
the order of event time, so that no partition runs ahead of another that still has to be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from riverrun.durations import BEGINNING
from riverrun.partitions import Partition

Ends = dict[Partition, int]

REST = 10
"""One part in so many of a batch is kept for what waits for no table, or no longer does."""


@dataclass(frozen=True)
class Times:
    """How far the event time of partitions has come."""

    highs: Mapping[Partition, int] = field(default_factory=dict)
    reach: int | None = None
    """The furthest that one of them came in the last batch; None if it is not known."""

    @classmethod
    def after(cls, before: Mapping[Partition, int], told: Mapping[Partition, int]) -> Times:
        """`told` is what the last batch has read."""
        highs = {**before, **{p: max(at, before.get(p, BEGINNING)) for p, at in told.items()}}
        moved = [highs[p] - before[p] for p in told if p in before]
        return cls(highs, max(moved, default=None))


class Admitted(NamedTuple):
    ends: Ends
    targets: Ends
    """Of tables that are still being loaded."""


def admit(
    begin: Ends,
    ends: Ends,
    most: int,
    *,
    first: Mapping[str, Collection[str]],
    targets: Ends,
    times: Times,
) -> Admitted:
    """Ends for one batch of at most about `most` records. `first` names, for topics, the tables
    that are loaded before them; `targets` are those that were fixed before."""
    tables = {topic for awaited in first.values() for topic in awaited}
    goals = _goals(begin, ends, targets, tables)
    planned, room = dict(begin), most - most // REST
    unread: Ends = {}
    held: set[str] = set()
    for topic in _in_order(tables, first):
        if held.isdisjoint(first.get(topic, ())):
            chosen = share({p: begin[p] for p in begin if p.topic == topic}, goals, max(room, 1))
            planned |= chosen
            room -= _count(begin, chosen)
        left = {p: goals[p] for p in begin if p.topic == topic and planned[p] < goals[p]}
        unread |= left
        held |= {topic} if left else set()
    streams = {
        topic
        for topic in {p.topic for p in begin} - tables
        if held.isdisjoint(first.get(topic, ()))
    }
    rest = max(most - _count(begin, planned), most // REST, 1)
    open_now = {p: begin[p] for p in begin if p.topic in streams}
    planned |= in_order_of_time(open_now, goals, rest, times)
    return Admitted(planned, unread)


def _goals(begin: Ends, ends: Ends, targets: Ends, tables: Collection[str]) -> Ends:
    """How far may be read: of tables that are being loaded, up to their targets."""
    loading = {p: min(target, ends[p]) for p, target in targets.items() if p in begin}
    loading = {p: t for p, t in loading.items() if begin[p] < t and p.topic in tables}
    topics = {p.topic for p in loading}
    return {p: loading.get(p, begin[p]) if p.topic in topics else ends[p] for p in begin}


def _in_order(tables: Collection[str], first: Mapping[str, Collection[str]]) -> list[str]:
    """Tables, each after those that it waits for itself."""

    def depth(topic: str) -> int:
        return max((depth(each) + 1 for each in first.get(topic, ())), default=0)

    return sorted(tables, key=lambda topic: (depth(topic), topic))


def in_order_of_time(begin: Ends, ends: Ends, most: int, times: Times) -> Ends:
    """Partitions that are ahead wait while one that is behind them has records for the batch."""
    planned, left = dict(begin), most
    for group in _groups({p for p in begin if begin[p] < ends[p]}, times):
        if left <= 0:
            break
        chosen = share({p: begin[p] for p in group}, ends, left)
        planned |= chosen
        left -= _count(begin, chosen)
    return planned


def _groups(waiting: Collection[Partition], times: Times) -> Iterator[list[Partition]]:
    """Partitions that are read together: within reach of the one that is furthest behind. Those
    whose time is not known are in the first group: nobody waits for them, nor do they."""
    highs, reach = times.highs, times.reach
    if reach is None:
        yield sorted(waiting)
        return
    group = sorted(p for p in waiting if p not in highs)
    lowest: int | None = None
    for high, partition in sorted((highs[p], p) for p in waiting if p in highs):
        lowest = high if lowest is None else lowest
        if high > lowest + reach:
            yield group
            group, lowest = [], high
        group.append(partition)
    yield group


def share(begin: Ends, ends: Ends, most: int) -> Ends:
    """Ends for one batch of at most about `most` records: every partition gives its share."""
    waiting = {name: ends[name] - begin[name] for name in begin}
    total = sum(waiting.values())
    if total <= most:
        return {name: ends[name] for name in begin}
    return {name: begin[name] + -(-count * most // total) for name, count in waiting.items()}


def _count(begin: Ends, ends: Ends) -> int:
    return sum(end - begin[p] for p, end in ends.items())
