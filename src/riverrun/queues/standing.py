"""How a queue stands: what waits, who works, what has died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from riverrun.errors import InputError
from riverrun.kafka import admin, share_groups
from riverrun.kafka.dead import DeadLetters
from riverrun.kafka.share_groups import SharePartition
from riverrun.queues.group import LIMIT, LOCK, START


@dataclass(frozen=True)
class Standing:
    """Of one group, in one topic."""

    topic: str
    group: str
    state: str
    members: int
    lock: float
    """Seconds."""
    deliveries: int
    """After so many the broker drops a record."""
    partitions: tuple[SharePartition, ...]
    dead: Mapping[str, int]
    """Dead letters that are open, and that were retried."""

    @property
    def behind(self) -> int | None:
        """None if the broker does not tell it of each partition."""
        known = [each.behind for each in self.partitions if each.behind is not None]
        return sum(known) if len(known) == len(self.partitions) else None


def standing(client: Mapping[str, str], topic: str, group: str) -> Standing:
    described = admin.describe(client, topic)
    found = share_groups.describe(client, group, topic)
    if found is None:
        raise InputError(
            f"there is no queue of the group {group!r}",
            got="no worker has ever been in it",
            hint=f'it begins with a worker: rr.queue("{topic}", group="{group}")',
        )
    settings = share_groups.settings(client, group)
    return Standing(
        topic=topic,
        group=group,
        state=found.state.lower(),
        members=found.members,
        lock=int(settings[LOCK]) / 1000,
        deliveries=int(settings[LIMIT]),
        partitions=tuple(
            _completed(each, described.partitions[each.number], settings[START])
            for each in found.partitions
        ),
        dead=_dead(client, topic, group),
    )


def _completed(each: SharePartition, all_of: admin.Partition, start: str) -> SharePartition:
    """Of a partition that no worker has looked at the broker tells nothing."""
    if each.start is not None or start != "earliest":
        return each
    return replace(each, start=all_of.start, behind=all_of.end - all_of.start)


def _dead(client: Mapping[str, str], topic: str, group: str) -> dict[str, int]:
    letters = DeadLetters(client, group)
    known = {each.name for each in admin.topics(client)}
    found = letters.read() if letters.topic in known else []
    counts = Counter(each.state for each in found if each.facts["topic"] == topic)
    return {"open": counts["open"], "retried": counts["retried"]}
