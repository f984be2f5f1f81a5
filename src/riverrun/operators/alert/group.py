"""What is told of a group, and when: decided by its rows, the logged tick, and what people say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["firing", "more", "repeated", "escalated", "acknowledged", "resolved"]


@dataclass(frozen=True)
class Times:
    """All in microseconds; None: never."""

    wait: int
    """From the first row of a group to the first notification."""
    interval: int
    """From a notification to the next one that has news."""
    repeat: int | None
    """From a notification to the next one without news."""
    resolve_after: int | None
    """Without a row the cause is taken to be gone."""
    escalate: tuple[int, ...]
    """From the first notification, to each of the levels."""


@dataclass(frozen=True)
class Group:
    """Rows that belong together, from the first one until it is told that they are over."""

    alert: str
    """Tells it apart from all others, also from those that the group had before."""
    since: int
    """The tick of the first row; that of the last one is `came_at`."""
    came_at: int
    row: str
    """The latest one, as JSON."""
    n: int = 0
    """Of a stream the rows that came, of a table those that are there."""
    added: int = 0
    """Rows that nothing was told of yet."""
    over: bool = False
    """Whether the cause is gone."""
    seq: int = 0
    """Notifications so far."""
    level: int = 0
    """How often it was escalated."""
    first_told: int | None = None
    told: int | None = None
    """When it was told of the rows: first, and last."""
    told_n: int | None = None
    kind: str | None = None
    title: str | None = None
    text: str | None = None
    """The last notification."""
    by: str | None = None
    """Who has acknowledged it."""
    comment: str | None = None

    @property
    def state(self) -> str:
        if self.over:
            return "over"
        if self.by is not None:
            return "acknowledged"
        return "waiting" if self.told is None else "firing"


@dataclass(frozen=True)
class Decided:
    group: Group | None
    """As it is from now on; None: it is forgotten."""
    told: tuple[tuple[Kind, int], ...]
    """What is told, each with the level that it has come to."""


def decide(group: Group, times: Times, tick: int, *, silenced: bool) -> Decided:
    """What is due at the tick. While it is silenced nothing is told, and what is due stays so."""
    told: list[tuple[Kind, int]] = []
    ready = group.told is None and tick >= group.since + times.wait and not group.over
    if ready and group.by is None and not silenced:
        group = _heard(group, tick)
        told.append(("firing", 0))
    if times.resolve_after is not None and tick >= group.came_at + times.resolve_after:
        group = replace(group, over=True)
    if group.told is None:
        # nobody has heard of it
        forgotten = group.over and tick >= group.since + times.wait
        return Decided(None if forgotten else group, ())
    if silenced:
        return Decided(group, tuple(told))
    if group.over:
        if tick < group.told + times.interval:
            return Decided(group, tuple(told))
        return Decided(None, (*told, ("resolved", group.level)))
    if group.by is None:
        group, more = _reminded(group, times, tick)
        told += more
    return Decided(group, tuple(told))


def _reminded(group: Group, times: Times, tick: int) -> tuple[Group, list[tuple[Kind, int]]]:
    """News, a reminder, and those who are called because nobody has acknowledged it."""
    told: list[tuple[Kind, int]] = []
    assert group.told is not None and group.first_told is not None
    if group.added and tick >= group.told + times.interval:
        told.append(("more", group.level))
    elif times.repeat is not None and tick >= group.told + times.repeat:
        told.append(("repeated", group.level))
    if told:
        group = _heard(group, tick)
    assert group.first_told is not None
    while group.level < len(times.escalate) and (
        tick >= group.first_told + times.escalate[group.level]
    ):
        group = replace(group, level=group.level + 1)
        told.append(("escalated", group.level))
    return group, told


def _heard(group: Group, tick: int) -> Group:
    first = tick if group.first_told is None else group.first_told
    return replace(group, told=tick, first_told=first, told_n=group.n, added=0)


def due(group: Group, times: Times) -> int | None:
    """The tick at which something may be to decide if nothing comes; None: never."""
    ways: list[int | None] = []
    if not group.over and times.resolve_after is not None:
        ways.append(group.came_at + times.resolve_after)
    if group.told is None:
        if group.over or group.by is None:
            ways.append(group.since + times.wait)
    elif group.over:
        ways.append(group.told + times.interval)
    elif group.by is None:
        ways.append(group.told + times.interval if group.added else None)
        ways.append(None if times.repeat is None else group.told + times.repeat)
        if group.level < len(times.escalate) and group.first_told is not None:
            ways.append(group.first_told + times.escalate[group.level])
    return min((each for each in ways if each is not None), default=None)
