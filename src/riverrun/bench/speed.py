"""`riverrun bench speed`: the same work in other systems, on the same events, from and to Kafka."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
from confluent_kafka import Producer

from riverrun.bench import load
from riverrun.bench.harness import PARTITIONS, Bench
from riverrun.bench.peers.starting import PEERS, Peer, Starter
from riverrun.bench.report import Report
from riverrun.bench.results import differing
from riverrun.bench.watching import Seen, Watch
from riverrun.config import Settings
from riverrun.errors import JobError, RiverrunError
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.partitions import Partition, Range

PER_SECOND = 2_000
"""Events per second of event time: 20,000 per window, so that 100,000 keys give a row per event."""
WINDOW = 10_000
COUNTRIES = 200
PATIENCE = 240.0
"""Seconds without a row, after which a system is given up."""
WORKS = {
    "W0 filter": ("filter", 100_000),
    "W1 count, 100,000 keys": ("count", 100_000),
    "W1 count, 1,000 keys": ("count", 1_000),
    "W2 join": ("join", 100_000),
}
RATIOS = (
    ("W1 count, 100,000 keys", "spark", 5.0),
    ("W1 count, 100,000 keys", "pyflink", 3.0),
    ("W0 filter", "bytewax", 1.5),
    ("W0 filter", "pyflink", 1.5),
    ("W2 join", "kstreams", 1.5),
)
"""How many times as fast riverrun is to be."""


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000

    @property
    def smaller(self) -> Sizes:
        return Sizes(200_000)


class SpeedBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=0)
        self.sizes, self.starter = sizes, Starter(settings, folder)
        self.views: dict[int, pl.DataFrame] = {}
        self.rates: dict[tuple[str, str], float] = {}

    def compare(self, peers: list[Peer], kinds: tuple[str, ...]) -> None:
        users = self._users()
        for work, (kind, keys) in WORKS.items():
            if kinds and kind not in kinds:
                continue
            topic = self._topic_of_views(keys)
            truth = expected(kind, self.views[keys])
            for peer in peers:
                self._measure(work, peer, {"work": kind, "input": topic, "table": users}, truth)
        for work, other, bound in RATIOS:
            if (work, other) in self.rates and (work, "riverrun") in self.rates:
                ratio = self.rates[work, "riverrun"] / self.rates[work, other]
                self.report.at_least(f"{work}: events/s of {other}", bound, ratio)

    def _measure(self, work: str, peer: Peer, plan: dict[str, Any], truth: pl.DataFrame) -> None:
        """A cell of the table, or the reason why it is empty."""
        self.console.print(f"{work}: {peer.name}", style="dim")
        # riverrun writes tables to compacted topics, by user and window; others write rows
        table = peer.name == "riverrun" and plan["work"] == "count"
        name = "-".join(re.findall("[a-z0-9]+", work.lower()))
        output = self.topic(f"{name}-{peer.name}", table=table)
        parallel = os.cpu_count() or 1
        plan = {
            **plan,
            "output": output,
            "parallel": parallel,
            "brokers": self.client["bootstrap.servers"],
        }
        try:
            with running(self.starter, peer, plan) as process:
                partitions = [Partition(output, number) for number in range(PARTITIONS)]
                seen = Watch(process, self.client, partitions).until(
                    len(truth), patience=PATIENCE, nudge=partial(self._close, plan["input"])
                )
            wrong = differing(truth, written(self.client, output, truth.columns))
        except RiverrunError as error:
            said = self.starter.log(plan)
            tail = said.read_text(errors="replace")[-1500:] if said.exists() else ""
            self.console.print(tail, error.fact, style="dim", highlight=False, markup=False)
            self.report.figures[f"{work}, {peer.name}: none"] = error.fact
            return
        self._note(work, peer, seen, events_per_row=self.sizes.events / len(truth))
        if wrong:
            self.report.figures[f"{work}, {peer.name}: rows that differ"] = wrong
        else:
            admin.delete_topic(self.client, output)

    def _note(self, work: str, peer: Peer, seen: Seen, *, events_per_row: float) -> None:
        rows, cpu = seen.steady
        self.rates[work, peer.name] = rows * events_per_row
        for name, value in {
            "events/s": round(rows * events_per_row),
            "CPU us/event": round(cpu / events_per_row * 1e6, 2),
            "first row, s": round(seen.first.at, 1),
            "memory, MB": seen.megabytes,
            "lines": peer.lines,
        }.items():
            self.report.figures[f"{work}, {peer.name}: {name}"] = value

    def _topic_of_views(self, keys: int) -> str:
        """Keyed by user, as Java's clients choose partitions: what others need to group by key."""
        name = f"{self.run}-views-{keys}"
        if keys not in self.views:
            self.views[keys] = views(self.sizes.events, keys)
            rows = self.views[keys].iter_rows()
            self._produce(self.topic(f"views-{keys}"), (
                (user, load.view(user, page, ms, at), at) for user, page, ms, at in rows
            ), closing=True)  # fmt: skip
        return name

    def _users(self) -> str:
        """A country for each user, an hour before the first view."""
        topic = self.topic("users", table=True)
        before = load.START - 3_600_000
        self._produce(topic, (
            (f"user-{n}", f'{{"id":"user-{n}","country":"{country(n)}"}}'.encode(), before)
            for n in range(100_000)
        ), closing=False)  # fmt: skip
        return topic

    def _produce(
        self, topic: str, records: Iterator[tuple[str, bytes, int]], *, closing: bool
    ) -> None:
        producer = Producer({**self.client, **load.PRODUCER, "partitioner": "murmur2_random"})
        self.console.print(f"producing to {topic}", style="dim")
        for number, (key, value, at) in enumerate(records):
            while True:
                try:
                    producer.produce(topic, value, key, timestamp=at)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % load.AT_ONCE == 0:
                producer.poll(0)
        producer.flush()
        if closing:
            self._close(topic)

    def _close(self, topic: str) -> None:
        """Once more, views in each partition that close all windows."""
        producer = Producer(self.client)
        for partition, value in enumerate(load.closing(PARTITIONS)):
            key, at = f"{load.CLOSING}{partition}", load.START + 86_400_000
            producer.produce(topic, value, key, partition=partition, timestamp=at)
        producer.flush()


def views(count: int, keys: int) -> pl.DataFrame:
    """Of random users, in order of time up to a little jitter; times are in milliseconds."""
    chosen = np.random.default_rng(keys)
    user = pl.Series("user", chosen.integers(keys, size=count)).cast(pl.String)
    numbers = np.arange(count)
    return pl.DataFrame(
        {
            "user": "user-" + user,
            "page": numbers % 1000,
            "ms": chosen.integers(4000, size=count) / 4,
            "at": load.START + numbers * 1000 // PER_SECOND + chosen.integers(100, size=count),
        }
    )


def country(user: int) -> str:
    return f"c{user % COUNTRIES}"


def expected(kind: str, rows: pl.DataFrame) -> pl.DataFrame:
    """What every system is to write, by Polars over all views at once."""
    if kind == "count":
        start = pl.col("at") // WINDOW * WINDOW
        sums = (pl.len().cast(pl.Int64).alias("views"), pl.col("ms").sum())
        return rows.group_by("user", start.alias("window_start")).agg(sums)
    rows = rows.with_columns(("/page/" + pl.col("page").cast(pl.String)).alias("page"))
    if kind == "filter":
        return rows.filter(pl.col("ms") >= 500)
    number = pl.col("user").str.slice(5).cast(pl.Int64) % COUNTRIES
    return rows.with_columns(("c" + number.cast(pl.String)).alias("country"))


def written(client: dict[str, str], topic: str, columns: list[str]) -> pl.DataFrame:
    """Every committed row of a topic but those of closing users. Times are milliseconds or text, as
    each system has them."""
    whole = [
        Range(Partition(topic, number), each.start, each.end)
        for number, each in enumerate(admin.describe(client, topic).partitions)
    ]
    parts = [
        rows["__value"] for found in RangeReader(client).read([whole]) for rows in found.values()
    ]
    lines = b"\n".join(value for part in parts for value in part.to_pylist())
    found = _standing(pl.read_ndjson(lines, infer_schema_length=None), columns)
    found = found.filter(~pl.col("user").str.starts_with(load.CLOSING))
    text = [
        name for name, kind in found.schema.items() if kind == pl.String and name == "window_start"
    ]
    return found.with_columns(pl.col(text).str.to_datetime("%+").dt.epoch("ms"))


def _standing(rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """What was not taken back, where rows say that they are (+1) or are no longer (-1)."""
    if "diff" not in rows.columns:
        return rows.select(columns)
    left = rows.group_by(columns).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
    return left.select(pl.col(columns).repeat_by(pl.col("diff").abs())).explode(columns)


@contextmanager
def running(
    starter: Starter, peer: Peer, plan: dict[str, Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, all of whose processes end with this."""
    process = starter.start(peer, plan)
    try:
        yield process
    finally:
        below = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for each in below:
            with suppress(psutil.Error):
                each.kill()
        process.wait()
        time.sleep(1)


def chosen(names: str) -> list[Peer]:
    """riverrun, and those that are named."""
    asked = ["riverrun", *(name for name in names.split(",") if name and name != "riverrun")]
    unknown = [name for name in asked if name not in PEERS]
    if unknown:
        raise JobError(f"no system is called {unknown[0]!r}", hint=f"known: {', '.join(PEERS)}")
    return [PEERS[name] for name in asked]


def bench(settings: Settings, sizes: Sizes, peers: str, kinds: tuple[str, ...]) -> Report:
    wanted = chosen(peers)
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = SpeedBench(settings, sizes, Path(folder))
        run.compare(wanted, kinds)
        return run.report
