"""`riverrun bench speed --latency`: how long an event takes from topic to topic."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from riverrun.bench.harness import PARTITIONS, Bench
from riverrun.bench.peers.starting import PEERS, Starter
from riverrun.bench.report import Report
from riverrun.bench.speed import running
from riverrun.config import Settings
from riverrun.errors import JobError

KEYS = 1_000
WINDOW = 10_000
PATIENCE = 60.0
WARM = 5_000
"""Milliseconds whose views are not counted: what runs has got going by then."""
TARGETS = {"stateless": 0.2, "stateful": 0.4}
"""Seconds that half of all events may take, up to 10,000 a second."""


@dataclass(frozen=True)
class Sizes:
    rates: tuple[int, ...] = (1_000, 10_000, 50_000)
    seconds: int = 40

    @property
    def smaller(self) -> Sizes:
        return Sizes((1_000,), 30)


Seen = tuple[float, dict[str, Any]]
"""When a row was there for others, in milliseconds, and the row."""


class LatencyBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=0)
        self.sizes, self.starter = sizes, Starter(settings, folder)

    def measure(self, kind: str, per_second: int) -> None:
        name = f"{kind}, {per_second:,} events/s"
        self.console.print(name, style="dim")
        topic = self.topic(f"in-{kind}-{per_second}")
        output = self.topic(f"out-{kind}-{per_second}", table=kind == "stateful")
        plan = {"work": kind, "input": topic, "output": output, "table": "", "parallel": 2,
                "brokers": self.client["bootstrap.servers"]}  # fmt: skip
        noted = self.folder / f"{topic}.npz"
        with running(self.starter, PEERS["riverrun"], plan), Reader(self.client, output) as reader:
            self._send(topic, 1_000, seconds=5, noted=noted)
            list(reader.rows(quiet=PATIENCE, first=True))  # it runs
            with self._sending(topic, per_second, self.sizes.seconds, noted) as sending:
                seen = list(reader.rows(quiet=10, until=sending))
        sent = np.load(noted)
        waits = passed(sent, seen) if kind == "stateless" else counted(sent, seen)
        self._note(name, kind, per_second, waits)

    def _note(self, name: str, kind: str, per_second: int, waits: np.ndarray[Any, Any]) -> None:
        if not len(waits):
            raise JobError("no event came through", where=name)
        p50, p95, p99 = (float(np.percentile(waits, p)) / 1000 for p in (50, 95, 99))
        for share, value in (("p50", p50), ("p95", p95), ("p99", p99)):
            self.report.figures[f"{name}: {share}, s"] = round(value, 3)
        if per_second <= 10_000:
            bound = TARGETS[kind]
            self.report.at_most(f"{name}: p50, s", bound, p50)
            self.report.at_most(f"{name}: p95, s", 2 * bound, p95)

    def _send(self, topic: str, per_second: int, *, seconds: int, noted: Path) -> None:
        with self._sending(topic, per_second, seconds, noted) as sending:
            sending.wait()

    def _sending(
        self, topic: str, per_second: int, seconds: int, noted: Path
    ) -> subprocess.Popen[bytes]:
        plan = {"client": self.client, "topic": topic, "per_second": per_second, "keys": KEYS,
                "seconds": seconds, "partitions": PARTITIONS, "noted": str(noted)}  # fmt: skip
        module = "riverrun.bench.latency_load"
        return subprocess.Popen([sys.executable, "-m", module, json.dumps(plan)])


class Reader:
    """Committed rows as they come."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        settings = {"group.id": topic, "isolation.level": "read_committed", "fetch.wait.max.ms": 10}
        self.consumer = Consumer({**client, **settings, "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def rows(
        self, *, quiet: float, first: bool = False, until: subprocess.Popen[bytes] | None = None
    ) -> Iterator[Seen]:
        """Until none has come for so long (after the sender has ended); or the first ones only."""
        heard = time.monotonic()
        while time.monotonic() - heard < quiet or (until and until.poll() is None):
            found = self.consumer.consume(20_000, 0.005)
            at = time.time() * 1000
            for message in found:
                if message.error() is None and (value := message.value()) is not None:
                    yield at, json.loads(value)
            if found:
                heard = time.monotonic()
                if first:
                    quiet = 3


def passed(sent: Any, seen: list[Seen]) -> np.ndarray[Any, Any]:
    """Milliseconds from each view until it was there."""
    begun = int(sent["at"][0]) + WARM
    return np.array([at - row["at"] for at, row in seen if row["at"] >= begun])


def counted(sent: Any, seen: list[Seen]) -> np.ndarray[Any, Any]:
    """Milliseconds from each view until a row of its window counted it, too: the first count that
    is as high as the view's number among those of its user."""
    times: dict[tuple[str, int], list[int]] = defaultdict(list)
    for at, user in zip(sent["at"].tolist(), sent["user"].tolist(), strict=True):
        times[f"user-{user}", at // WINDOW * WINDOW].append(at)
    begun = int(sent["at"][0]) // WINDOW * WINDOW + WINDOW + WARM
    known: dict[tuple[str, int], int] = defaultdict(int)
    waits: list[float] = []
    for at, row in seen:
        place = (row["user"], row["start"])
        of_window = times.get(place, [])
        if row["start"] >= begun:
            waits += [at - each for each in of_window[known[place] : row["views"]]]
        known[place] = max(known[place], row["views"])
    return np.array(waits)


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = LatencyBench(settings, sizes, Path(folder))
        for kind in TARGETS:
            for per_second in sizes.rates:
                run.measure(kind, per_second)
        return run.report
