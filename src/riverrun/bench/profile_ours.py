"""A program of `riverrun bench profile` from topic to topic in one process, without Spark: what
tasks do, with their own classes, and where the CPU goes."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Producer

from riverrun import config
from riverrun.app import App
from riverrun.bench import join_ours, ours
from riverrun.bench.stages import Stages
from riverrun.config import Settings
from riverrun.delivery.outbox import Outbox
from riverrun.kafka import direct_sending
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels import pages
from riverrun.kernels.lots import LotReader
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.program import Program
from riverrun.kernels.routing import Router
from riverrun.outputs import Part, destination_of
from riverrun.partitions import Partition, Range
from riverrun.runtime import replay
from riverrun.runtime.compare_at import Making, point_of
from riverrun.runtime.spans import Asked
from riverrun.runtime.surroundings import places_of
from riverrun.sinks.kafka import transactions
from riverrun.sinks.kafka.records import PRODUCER
from riverrun.sources.kafka import KafkaSource

WATCHED = (
    (replay, "read_ranges", "read"),
    (LotReader, "read", "decode"),
    (Router, "along", "queries of the program, combine"),
    (Router, "packed", "hash, page, pack"),
    (pages, "unpack_all", "unpack"),
    (PageKernel, "visit", "kernel"),
    (replay.FolderStore, "get", "state"),
    (replay.FolderStore, "put", "state"),
    (Outbox, "outputs", "unpack"),
    (transactions, "encoded", "encode"),
    (transactions.KafkaExactlyOnce, "deliver", "write"),
)
"""What is within another one is not counted there: of reading a lot, decoding is left."""


def profiled(app: App, settings: Settings, batch: int, folder: Path) -> dict[str, float]:
    """Microseconds of CPU per event, after the first batch, which warms up."""
    stages = Stages()
    for owner, name, stage in WATCHED:
        stages.watch(owner, name, stage)
    batches, events = _batches(app, settings, batch, folder), 0
    next(batches)
    stages.seconds.clear()
    began = time.process_time()
    for read in batches:
        events += read
    whole = time.process_time() - began
    found = dict(stages.seconds)
    found["other threads (librdkafka)"] = whole - sum(found.values())
    return {name: seconds / events * 1e6 for name, seconds in found.items()}


def _batches(app: App, settings: Settings, batch: int, folder: Path) -> Iterator[int]:
    """Runs one after the other, and delivers what comes of it; how many records each has read."""
    program = app.program()
    output = program.outputs[0]
    places = places_of(program, settings, settings.client(), lambda _: None)
    destination = destination_of(output.sink, places)
    assert destination is not None
    destination.prepare([output])
    destination.take_over(program.name, 1)
    making = Making(program, output, point_of([app], settings, Asked()), folder, batch=batch)
    for number, (rows, records) in enumerate(making.batches()):
        part = Part(program.name, "profile", 1, number, 0, time.time_ns() // 1000)
        destination.begin(part)
        if rows is not None:
            destination.deliver(part, [(output, rows)], making.replay.reader.evaluator)
        yield records


def floor(program: Program, settings: Settings, topic: str, scratch: str) -> dict[str, float]:
    """The least that any program does: read by librdkafka, decode by DuckDB, the same records
    produced. Microseconds of CPU per event."""
    client = settings.client()
    topics, seconds, events = KafkaTopics(client), dict[str, float](), 0
    fact = topics.facts([topic])[topic]
    parts = [Partition(topic, number) for number in range(fact.partitions)]
    ranges = [Range(each, 0, end) for each, end in topics.ends(parts).items()]
    producer = Producer({**client, **PRODUCER})
    sending = direct_sending.sending(producer)
    own = duckdb.connect(config={"threads": 1})
    columns = program.source(topic).fields.columns
    shape = json.dumps({each.name: each.type for each in columns})
    lots = KafkaSource(client, settings.reader).lots(ranges, frozenset())
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
    least = floor(app.program(), settings, plan["input"], plan["scratch"])
    with tempfile.TemporaryDirectory(prefix="riverrun-profile-") as folder:
        found = {"ours": profiled(app, settings, plan["batch"], Path(folder)), "floor": least}
    Path(plan["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
