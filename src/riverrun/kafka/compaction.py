"""Log compaction: how topics of tables are set up for it, and what it has left of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b

from confluent_kafka import Message

from riverrun.kafka import admin
from riverrun.kafka.browse import Browser

POLICY, LAG = "cleanup.policy", "min.compaction.lag.ms"
DAY = timedelta(days=1) // timedelta(milliseconds=1)
"""What records of tables stay at least, unless the settings say otherwise: a batch that is run
again must find all that it has read."""

SETTINGS = (
    POLICY, LAG, "max.compaction.lag.ms", "delete.retention.ms", "min.cleanable.dirty.ratio",
    "segment.ms", "segment.bytes",
)  # fmt: skip
"""What decides when compaction removes a record, or a mark that one is deleted."""
DELETION = ("retention.ms", "retention.bytes")

Progress = Callable[[int, int], None]
"""How many offsets are read, of how many."""


def table_settings(lag: int) -> dict[str, str]:
    """Of a topic that holds a table: records stay for so many milliseconds, whatever their key."""
    return {POLICY: "compact", LAG: str(lag)}


def compacted(settings: Mapping[str, str]) -> bool:
    return "compact" in settings[POLICY]


def deciding(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a topic's settings that decide how long its records stay."""
    shown = SETTINGS if compacted(settings) else (POLICY,)
    if "delete" in settings[POLICY]:
        shown = (*shown, *DELETION)
    return {name: settings[name] for name in shown if name in settings}


@dataclass
class Left:
    """What is left of a partition. A later record of a key supersedes the earlier ones."""

    records: int = 0
    size: int = 0
    """Bytes of keys and values."""
    tombstones: int = 0
    superseded: int = 0
    superseded_size: int = 0
    without_key: int = 0
    _last: dict[bytes, int] = field(default_factory=dict)

    @property
    def keys(self) -> int:
        return len(self._last)

    def add(self, message: Message) -> None:
        key, value = message.key(), message.value()
        size = len(key or b"") + len(value or b"")
        self.records, self.size = self.records + 1, self.size + size
        self.tombstones += value is None
        if key is None:
            self.without_key += 1
            return
        short = blake2b(key if isinstance(key, bytes) else key.encode(), digest_size=12).digest()
        before = self._last.get(short)
        if before is not None:
            self.superseded += 1
            self.superseded_size += before
        self._last[short] = size

    def facts(self) -> dict[str, int]:
        return {
            "records": self.records, "keys": self.keys, "tombstones": self.tombstones,
            "bytes": self.size, "superseded": self.superseded,
            "superseded_bytes": self.superseded_size,
        }  # fmt: skip


def left(client: Mapping[str, str], topic: str, progress: Progress) -> dict[int, Left]:
    """Reads a whole topic: its committed records, by partition."""
    with Browser(client, topic) as browser:
        found = {partition: Left() for partition in browser.earliest}
        total = browser.topic.span
        for done, message in enumerate(browser.read(browser.earliest)):
            partition = message.partition()
            assert partition is not None
            found[partition].add(message)
            if done % 1000 == 0:
                progress(done, total)
    return found


def changed(client: Mapping[str, str], topic: str, settings: Mapping[str, str | None]) -> None:
    """Changes settings of a topic; None gives one back to the broker."""
    admin.describe(client, topic)  # an error that says so if it is not there
    admin.alter_topic(client, topic, settings)
