"""How far reading is behind: what a running job notes of it, and what the cluster tells."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from riverrun import private
from riverrun.partitions import Partition, from_files

PERIOD = 60.0
"""Seconds that rates are taken over."""

GRAIN = 1.0
"""Seconds between two samples, and between two notes."""

LAST_WORD = 2.0
"""Seconds to wait for the broker when a job ends."""

KEPT = 3
"""Batches whose lag is kept: when one is shown, the next one or two are planned already."""

LAG = "lag.json"
"""The file of a job's status folder that holds its lag."""

Offsets = Mapping[Partition, int]


@dataclass
class Rates:
    """Records per second over the last minute, per partition."""

    samples: deque[tuple[float, Offsets]] = field(default_factory=deque)

    def note(self, at: float, offsets: Offsets) -> None:
        if len(self.samples) > 1 and at - self.samples[-2][0] < GRAIN:
            self.samples.pop()
        self.samples.append((at, dict(offsets)))
        while len(self.samples) > 2 and self.samples[1][0] <= at - PERIOD:
            self.samples.popleft()

    def of(self, partition: Partition) -> float | None:
        """None while too little is known."""
        known = [(at, offsets[partition]) for at, offsets in self.samples if partition in offsets]
        if len(known) < 2 or known[-1][0] - known[0][0] < GRAIN:
            return None
        (began_at, first), (at, last) = known[0], known[-1]
        return max(last - first, 0) / (at - began_at)


class LagBook:
    """Notes how far a job has come: in a file for this machine, in a group for Kafka's tools.

    Nothing here may stop the job: what cannot be noted is left out.
    """

    def __init__(
        self,
        application: str,
        admin_client: AdminClient,
        file: Path,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.application, self.admin, self.file, self.clock = application, admin_client, file, clock
        self.came, self.read = Rates(), Rates()
        self.loading: dict[str, dict[str, int]] = {}
        self.noted_at = 0.0
        self.committed: dict[Partition, int] = {}
        self.answer: Future[Any] | None = None
        self.batches: dict[int, dict[str, Any]] = {}

    def stands(self, read: Offsets) -> None:
        """All batches up to these offsets are committed."""
        self.read.note(self.clock(), read)
        if dict(read) != self.committed:
            self.committed = dict(read)
            self._commit(read)

    def _commit(self, read: Offsets) -> None:
        least: dict[Partition, int] = {}
        topics = {each: place for each, place in read.items() if not from_files(each.topic)}
        for partition, offset in topics.items():  # of several readings the one that is behind
            least[partition.real] = min(offset, least.get(partition.real, offset))
        places = [TopicPartition(*partition, offset) for partition, offset in least.items()]
        group = ConsumerGroupTopicPartitions(self.application, places)
        with suppress(KafkaException, ValueError):
            answers = self.admin.alter_consumer_group_offsets([group])
            self.answer = answers[self.application]

    def plans(self, read: Offsets, ends: Offsets, *, batch: int | None, targets: Offsets) -> None:
        """The next batch, of this number, reads up to `read` of what there is. None: there is
        nothing to do. `targets` are of tables that are loaded before others may be read."""
        now = self.clock()
        self._load(read, targets)
        self.came.note(now, ends)
        if batch is None and now - self.noted_at < GRAIN:
            return
        self.noted_at = now
        rows = {
            str(partition): {
                "read": read[partition],
                "committed": self.committed.get(partition),
                "end": end,
                "rate_in": self.came.of(partition),
                "rate_out": self.read.of(partition),
            }
            for partition, end in ends.items()
        }
        noted = {"at": now, "partitions": rows, "loading": self.loading}
        if batch is not None:
            self.batches = {**dict(list(self.batches.items())[1 - KEPT :]), batch: noted}
        with suppress(OSError):
            private.replace(self.file, json.dumps({**noted, "batches": self.batches}))

    def _load(self, read: Offsets, targets: Offsets) -> None:
        """How many records of each table are still to be loaded, and how many there were."""
        left, all_of = Counter[str](), Counter[str]()
        for partition, target in targets.items():
            left[partition.topic] += target - read[partition]
            all_of[partition.topic] += target - self.committed.get(partition, read[partition])
        were = {topic: known["of"] for topic, known in self.loading.items()}
        self.loading = {
            topic: {"left": count, "of": max(all_of[topic], were.get(topic, 0))}
            for topic, count in left.items()
        }

    def close(self) -> None:
        """Nothing more will be read: the broker shall have heard the last of it."""
        if self.answer is not None:
            with suppress(KafkaException, TimeoutError):
                self.answer.result(LAST_WORD)


def to_go(noted: Mapping[str, Any]) -> float | None:
    """Seconds until all is read, by the rates of the last minute; None if it is not known, or
    never."""
    rows = noted["partitions"].values()
    left = sum(each["end"] - each["read"] for each in rows)
    rates = [sum(each[name] or 0 for each in rows) for name in ("rate_out", "rate_in")]
    gained = rates[0] - rates[1]
    return left / gained if gained > 0 else None


def of_batch(file: Path, batch: int) -> dict[str, Any] | None:
    """What was noted when this batch was planned."""
    found: dict[str, Any] | None = (noted(file) or {}).get("batches", {}).get(str(batch))
    return found


def noted(file: Path) -> dict[str, Any] | None:
    """What a job on this machine noted last."""
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found
