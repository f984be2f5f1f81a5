"""A backfill without a broker and without Spark: batches as the planner of Kafka's topics cuts
them, run by the kernels one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import riverrun as rr
from riverrun.kafka.topics import TopicFacts
from riverrun.partitions import Partition
from riverrun.runtime.replay import Replay
from riverrun.sources import kafka as sources_kafka
from riverrun.sources.files import MemoryTopics
from riverrun.sources.kafka import KafkaPlanner
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset
from riverrun.sources.source import Circumstances

SECOND = 1_000_000


@dataclass
class InMemory:
    """What the planner asks Kafka."""

    topics: MemoryTopics
    partitions: dict[str, int]

    def facts(self, topics: list[str]) -> dict[str, TopicFacts]:
        return {each: TopicFacts(each, self.partitions[each]) for each in topics}

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 0)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return {p: len(self.topics.records.get(p, ())) for p in partitions}


@dataclass
class Backfill:
    """One output of a program, over all that topics hold."""

    app: rr.App
    output: str
    topics: MemoryTopics
    partitions: dict[str, int]
    folder: Path
    most: int
    close: bool = True
    once: bool = True
    took: int = SECOND
    """How long a batch takes, by the wall clock."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    batches: list[Offset] = field(default_factory=list)
    late: int = 0
    waited: list[int] = field(default_factory=list)
    """Rows that waited after each batch."""

    def run(self, monkeypatch: Any, batches: int = 10_000) -> Backfill:
        """Until there is nothing more to do, or for so many batches."""
        program, now = self.app.program(), [1_800_000_000 * SECOND]
        monkeypatch.setattr(sources_kafka, "_now", lambda: now[0])
        [output] = [each for each in program.outputs if each.name == self.output]
        replay = Replay(program, output, self.topics, self.folder)
        status: list[dict[str, Any]] = []
        job = Circumstances(
            program, Pacer(self.most, None), lambda: status[-1] if status else None,
            self.folder, close=self.close,
        )  # fmt: skip
        plan = KafkaPlanner(job, InMemory(self.topics, self.partitions))  # type: ignore[arg-type]
        at = plan.first()
        if self.once:
            plan.stop_at_end()
        while len(self.batches) < batches and (end := plan.next(at)) != at:
            self._keep(replay.batch(at, end))
            status.append(asdict(replay.status))
            self.batches.append(end)
            self.late += sum(replay.status.late.values())
            self.waited.append(sum(replay.status.waiting.values()))
            at, now[0] = end, now[0] + self.took
        return self

    def _keep(self, rows: pa.Table | None) -> None:
        self.rows += [] if rows is None else rows.to_pylist()
