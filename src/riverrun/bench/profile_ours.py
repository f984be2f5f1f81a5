"""A program of `riverrun bench profile` from topic to topic in one process, without Spark: what
tasks do, with their own classes, and where the CPU goes. State is kept in memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Producer

from riverrun import config
from riverrun.bench import join_ours, ours
from riverrun.bench.stages import Stages
from riverrun.clock import Now, Punctuation
from riverrun.config import Settings
from riverrun.delivery.outbox import Outbox
from riverrun.kafka import direct_sending
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels import pages
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.lots import LotReader
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.program import Program
from riverrun.kernels.routing import Router
from riverrun.kernels.state import SegmentCache
from riverrun.outputs import Part, by_destination, destinations
from riverrun.partitions import Partition, Range
from riverrun.runtime.surroundings import places_of
from riverrun.sinks.kafka import transactions
from riverrun.sinks.kafka.records import PRODUCER
from riverrun.sources.kafka import KafkaPlanner, KafkaSource
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, tasks
from riverrun.sources.reading import read_ranges
from riverrun.sources.source import Circumstances
from riverrun.testing.checkpoints import MemoryStore

CACHE = 1 << 28
WATCHED = (
    (LotReader, "read", "decode"),
    (Router, "along", "queries of the program, combine"),
    (Router, "packed", "hash, page, pack"),
    (pages, "unpack_all", "unpack"),
    (PageKernel, "visit", "kernel"),
    (MemoryStore, "get", "state"),
    (MemoryStore, "put", "state"),
    (Outbox, "outputs", "unpack"),
    (transactions, "encoded", "encode"),
    (transactions.KafkaExactlyOnce, "deliver", "write"),
)
"""What is within another one is not counted there: of reading a lot, decoding is left."""


@dataclass
class Job:
    """A program, and what its tasks would hold."""

    program: Program
    settings: Settings
    client: dict[str, str]
    batch: int
    stages: Stages = field(default_factory=Stages)
    status: dict[str, Any] | None = None
    heads: dict[tuple[int, int], bytes] = field(default_factory=dict)
    stores: dict[tuple[int, int], MemoryStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = KafkaSource(self.client, self.settings.reader)
        self.reader = LotReader(self.program)
        self.kernels = [
            PageKernel(self.program, level, SegmentCache(CACHE), "profile")
            for level in range(self.program.levels)
        ]
        self.places = places_of(self.program, self.settings, self.client, lambda _: None)
        about = Circumstances(self.program, Pacer(self.batch, None), lambda: self.status, Path())
        self.planner = KafkaPlanner(about, KafkaTopics(self.client))
        self.planner.stop_at_end()
        for destination, outputs in destinations(self.program.outputs, self.places).items():
            destination.prepare(outputs)
            destination.take_over(self.program.name, 1)

    def batches(self) -> Iterator[int]:
        """Runs one after the other; how many records each has read."""
        start = self.planner.first()
        while (end := self.planner.next(start)) != start:
            self._run(start, end)
            yield sum(end.ends.values()) - sum(start.ends.values())
            start = end

    def _run(self, start: Offset, end: Offset) -> None:
        part = Part(self.program.name, "profile", 1, end.batch, 0, end.tick)
        for destination in destinations(self.program.outputs, self.places):
            destination.begin(part)
        outbox = Outbox(self.program, self.reader.evaluator, lambda _: {})
        for chunk in self._computed(list(self._read(start, end))):
            outbox.add(chunk)
        found = list(outbox.outputs())
        for destination, rows in by_destination(found, self.places).items():
            if destination is not None:
                destination.deliver(part, rows, self.reader.evaluator)
        self.status = asdict(outbox.status)

    def _read(self, start: Offset, end: Offset) -> Iterator[Chunk]:
        now = Now(end.tick, self.source.wall, end.clocks)
        marks = [end.punctuation()]
        for ranges in tasks(start, end):
            said = marks.pop() if marks else Punctuation()
            for chunks in self.stages.each("read", self._lots(ranges, now, said)):
                yield from chunks

    def _lots(self, ranges: list[Range], now: Now, said: Punctuation) -> Iterator[list[Chunk]]:
        return read_ranges(self.source, self.reader, ranges, now, said)

    def _computed(self, chunks: list[Chunk]) -> list[Chunk]:
        for level in range(len(self.kernels)):
            by_page: dict[int, list[Chunk]] = {}
            for chunk in chunks:
                by_page.setdefault(chunk.page, []).append(chunk)
            chunks = [
                out
                for page in range(self.program.pages)
                for out in self._visited((level, page), by_page.get(page, []))
            ]
            if level + 1 < len(self.kernels):
                chunks = list(self.reader.forward(chunks))
        return chunks

    def _visited(self, place: tuple[int, int], chunks: list[Chunk]) -> list[Chunk]:
        level, page = place
        store = self.stores.setdefault(place, MemoryStore())
        head, out = self.kernels[level].visit(page, self.heads.get(place), store, chunks)
        if head is not None:
            self.heads[place] = head
        return out


def profiled(job: Job) -> dict[str, float]:
    """Microseconds of CPU per event, after the first batch, which warms up."""
    batches, events = job.batches(), 0
    next(batches)
    job.stages.seconds.clear()
    began = time.process_time()
    for read in batches:
        events += read
    whole = time.process_time() - began
    stages = job.stages.seconds
    stages["other threads (librdkafka)"] = whole - sum(stages.values())
    return {name: seconds / events * 1e6 for name, seconds in stages.items()}


def floor(job: Job, topic: str, scratch: str) -> dict[str, float]:
    """The least that any program does: read by librdkafka, decode by DuckDB, the same records
    produced. Microseconds of CPU per event."""
    topics, seconds, events = KafkaTopics(job.client), dict[str, float](), 0
    fact = topics.facts([topic])[topic]
    parts = [Partition(topic, number) for number in range(fact.partitions)]
    ranges = [Range(each, 0, end) for each, end in topics.ends(parts).items()]
    producer = Producer({**job.client, **PRODUCER})
    sending = direct_sending.sending(producer)
    own = duckdb.connect(config={"threads": 1})
    columns = job.program.source(topic).fields.columns
    shape = json.dumps({each.name: each.type for each in columns})
    lots = job.source.lots(ranges, frozenset())
    while True:
        began = time.process_time()
        lot = next(lots, None)
        if lot is None:
            break
        events += lot.records.num_rows
        read = time.process_time()
        texts = pa.table({"text": lot.records["__value"].cast(pa.string())})
        own.register("lot", texts)
        own.execute(f"SELECT json_transform(text, '{shape}') FROM lot").to_arrow_table()
        decoded = time.process_time()
        keys = pa.nulls(texts.num_rows, pa.binary())
        sending.send(scratch, pa.table({"key": keys, "value": lot.records["__value"]}))
        producer.flush()
        written = time.process_time()
        for name, took in (
            ("read", read - began), ("decode", decoded - read), ("write", written - decoded),
        ):  # fmt: skip
            seconds[name] = seconds.get(name, 0.0) + took
    return {name: each / events * 1e6 for name, each in seconds.items()}


def main() -> None:
    plan = json.loads(sys.argv[1])
    app = (join_ours if "right" in plan else ours).program(plan)
    settings = config.load().override(brokers=plan["brokers"])
    job = Job(app.program(), settings, settings.client(), plan["batch"])
    least = floor(job, plan["input"], plan["scratch"])
    for owner, name, stage in WATCHED:
        job.stages.watch(owner, name, stage)
    found = {"ours": profiled(job), "floor": least}
    Path(plan["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
