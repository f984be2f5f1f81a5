"""What a queue's group has to be set to, so that no record is dropped or passed over."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.errors import ConfigError
from riverrun.kafka import share_groups

LIMIT, LOCK = "share.delivery.count.limit", "share.record.lock.duration.ms"
START, ISOLATION = "share.auto.offset.reset", "share.isolation.level"
SPARE = 2
"""Deliveries after the last try: that a dead letter is written, also if its writer is killed."""


def prepare(
    client: Mapping[str, str], group: str, *, tries: int, lock: float | None, start: str
) -> None:
    """Changes what is not so yet. What nobody asked for is left as it is."""
    now = share_groups.settings(client, group)
    limit = int(now.get(LIMIT, 0))
    wanted = {START: start, ISOLATION: "read_committed"}
    if limit < tries + SPARE:
        wanted[LIMIT] = str(tries + SPARE)
    if lock is not None:
        wanted[LOCK] = str(round(lock * 1000))
    changed = {name: value for name, value in wanted.items() if now.get(name) != value}
    if missing := [name for name in changed if name not in now]:
        raise ConfigError(
            "the brokers do not know a setting that queues need",
            where=f"group {group!r}",
            got=", ".join(missing),
            hint="queues need Kafka 4.2 or later",
        )
    if changed:
        share_groups.alter(client, group, changed)
