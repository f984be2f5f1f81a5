"""An application run batch by batch in this process: topics, sinks and the log are real.

What Spark does between them is done here in the simplest way: batches are planned and logged,
tasks deliver one after the other, and the batch is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun.archive.held import Archived
from riverrun.clock import Now, Punctuation
from riverrun.compiler.shape import shape
from riverrun.config import Settings
from riverrun.delivery.outbox import Outbox
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import Status
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.state import SegmentCache
from riverrun.outputs import Part, by_destination, destinations
from riverrun.runtime import checkpoint
from riverrun.runtime.surroundings import places_of
from riverrun.sources.kafka import KafkaPlanner, KafkaSource
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, tasks
from riverrun.sources.reading import read_ranges
from riverrun.sources.source import Circumstances
from riverrun.sources.span import EVERYTHING, Span
from riverrun.testing.checkpoints import MemoryStore

TASKS = 3


@dataclass
class Job:
    app: rr.App
    settings: Settings
    client: dict[str, str]
    max_events: int = 1000
    span: Span = EVERYTHING
    number: int = 0
    told: dict[str, Any] | None = None
    stores: dict[tuple[int, int], MemoryStore] = field(default_factory=dict)
    heads: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program = self.app.program()
        self.folder = self.settings.checkpoint_of(self.program.name)
        (self.folder / "query" / "offsets").mkdir(parents=True)
        (self.folder / "query" / "commits").mkdir()
        self.identity = checkpoint.identity(self.folder)
        checkpoint.note(self.folder, shape(self.program))
        archived = Archived.of(self.settings.archive_root, self.span.archived)
        self.source = KafkaSource(self.client, archived=archived)
        self.places = places_of(self.program, self.settings, self.client, print)
        for destination, outputs in destinations(self.program.outputs, self.places).items():
            destination.prepare(outputs)
            destination.take_over(self.program.name, self.identity.run)
        pacer = Pacer(self.max_events, None)
        about = Circumstances(self.program, pacer, lambda: self.told, self.folder, span=self.span)
        self.planner = KafkaPlanner(about, KafkaTopics(self.client))
        self.at = self.planner.first()
        self.reader = LotReader(self.program)
        self.kernels = [
            PageKernel(self.program, level, SegmentCache(1 << 28), "job")
            for level in range(self.program.levels)
        ]

    @contextmanager
    def held(self) -> Iterator[Job]:
        """As seen from other processes, it runs."""
        with checkpoint.held(self.folder, self.program.name):
            yield self

    def close(self) -> None:
        for destination in destinations(self.program.outputs, self.places):
            destination.close()

    def run(self) -> Job:
        """Reads all that there is."""
        while self.batch():
            pass
        return self

    def batch(self) -> bool:
        """One batch; False if there was nothing to do."""
        return len(list(self.parts())) > 0

    def parts(self) -> Iterator[int]:
        """One batch; stops after each task has delivered. It is committed after the last."""
        end = self.planner.next(self.at)
        if end == self.at:
            return
        end.parallel = 2
        self._log("offsets", ["v1", "{}", json.dumps(end.logged())])
        total, receipts = Status(), []
        for task, outbox in enumerate(self._computed(self.at, end)):
            receipts.append(self._delivered(task, outbox, end.tick))
            total.add(outbox.status)
            yield task
        for place, each in enumerate(destinations(self.program.outputs, self.places)):
            each.finish(self.number, [receipt[place] for receipt in receipts])
        self.told = {"clocks": total.clocks, "open": total.open, "highs": total.highs}
        self._log("commits", ["v1", "{}"])
        self.at, self.number = end, self.number + 1

    def _delivered(self, task: int, outbox: Outbox, tick: int) -> list[Any]:
        own = self.identity
        part = Part(self.program.name, own.checkpoint, own.run, self.number, task, tick)
        rows = by_destination(list(outbox.outputs()), self.places)
        found = []
        for destination in destinations(self.program.outputs, self.places):
            destination.begin(part)
            given = rows.get(destination)
            made = destination.deliver(part, given, self.reader.evaluator) if given else None
            found.append(made)
        return found

    def _computed(self, start: Offset, end: Offset) -> list[Outbox]:
        chunks = self._read(start, end)
        for level, kernel in enumerate(self.kernels):
            left: list[Chunk] = []
            for page in range(self.program.pages):
                ours = [chunk for chunk in chunks if chunk.page == page]
                store = self.stores.setdefault((level, page), MemoryStore())
                head, out = kernel.visit(page, self.heads.get((level, page)), store, ours)
                self.heads[level, page] = head or self.heads.get((level, page), b"")
                left += out
            chunks = list(self.reader.forward(left)) if level + 1 < len(self.kernels) else left
        boxes = [
            Outbox(self.program, self.reader.evaluator, self.source.originals) for _ in range(TASKS)
        ]
        for chunk in chunks:
            boxes[chunk.page % TASKS].add(chunk)
        return boxes

    def _read(self, start: Offset, end: Offset) -> list[Chunk]:
        dealt = tasks(start, end)
        marks = [end.punctuation(), *(Punctuation() for _ in dealt[1:])]
        now = Now(end.tick, self.source.wall, end.clocks)
        return [
            chunk
            for ranges, mark in zip(dealt, marks, strict=True)
            for chunks in read_ranges(self.source, self.reader, ranges, now, mark)
            for chunk in chunks
        ]

    def _log(self, kind: str, lines: list[str]) -> None:
        file = Path(self.folder / "query" / kind / str(self.number))
        file.write_text("\n".join(lines))
