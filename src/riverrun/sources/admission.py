"""Admission: what a batch reads of each partition when there is more than fits.

Tables come first: a row that is joined with a table as it stands meets all that the table's topic
held when the batch was planned. Where that does not fit, a target is fixed for the table, and what
waits for it is held until the target is reached: by offset, never by a clock. The rest is read in
the order of event time, so that no partition runs ahead of another that still has to be read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from riverrun.partitions import Partition
from riverrun.sources.course import Course

Ends = dict[Partition, int]

REST = 10
"""One part in so many of a batch is kept for what waits for no table, or no longer does."""

LOOK = 500
"""Records of a partition that tell how it goes."""


class Admitted(NamedTuple):
    ends: Ends
    targets: Ends
    """Of tables that are still being loaded."""
    look: bool = False
    """Whether it only reads how partitions go: how long it takes tells nothing."""


def admit(
    begin: Ends,
    ends: Ends,
    most: int,
    *,
    first: Mapping[str, Collection[str]],
    targets: Ends,
    course: Course | None,
) -> Admitted:
    """Ends for one batch of at most about `most` records. `first` names, for topics, the tables
    that are loaded before them; `targets` are those that were fixed before. Without a course the
    order of time does not matter."""
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
    if course is None:
        return Admitted(planned | share(open_now, goals, rest), unread)
    in_order = in_order_of_time(open_now, goals, rest, course)
    return Admitted(planned | in_order.ends, unread, in_order.look)


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


def in_order_of_time(begin: Ends, ends: Ends, most: int, course: Course) -> Admitted:
    """Partitions are read up to about the same event time.

    Where it is not known how a partition goes, a few records of it tell. Those whose records have
    no time that could be followed give their share of the batch.
    """
    waiting = {p: begin[p] for p in begin if begin[p] < ends[p]}
    if len(waiting) < 2 or _count(waiting, ends) <= most:
        return Admitted(begin | share(waiting, ends, most), {})
    if unknown := {p: at for p, at in waiting.items() if course.unknown(p)}:
        look = {p: min(at + LOOK, ends[p]) for p, at in unknown.items()}
        return Admitted(begin | share(unknown, look, most), {}, look=True)
    timed = {p: at for p, at in waiting.items() if course.followed(p)}
    rest = {p: at for p, at in waiting.items() if p not in timed}
    left = {p: ends[p] - at for p, at in timed.items()}
    mine = -(-most * sum(left.values()) // _count(waiting, ends))
    taken = course.next(left, mine)
    planned = begin | {p: at + taken[p] for p, at in timed.items()}
    # what the program itself writes is little, and others wait for it
    theirs = max(most - mine, most // REST)
    return Admitted(planned | share(rest, ends, theirs), {})


def share(begin: Ends, ends: Ends, most: int) -> Ends:
    """Ends for one batch of at most about `most` records: every partition gives its share."""
    waiting = {name: ends[name] - begin[name] for name in begin}
    total = sum(waiting.values())
    if total <= most:
        return {name: ends[name] for name in begin}
    return {name: begin[name] + -(-count * most // total) for name, count in waiting.items()}


def _count(begin: Ends, ends: Ends) -> int:
    return sum(ends[p] - place for p, place in begin.items() if p in ends)
