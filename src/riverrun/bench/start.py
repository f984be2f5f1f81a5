"""`riverrun bench start`: how long a small program takes to its first result, and what it holds in
memory when nothing comes any more."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load
from riverrun.bench.harness import PARTITIONS, Bench
from riverrun.bench.peers.starting import PEERS, Starter
from riverrun.bench.report import Report
from riverrun.bench.speed import running
from riverrun.bench.watching import Watch
from riverrun.config import Settings
from riverrun.partitions import Partition

PROGRAMS = {"a filter": "stateless", "a windowed count": "stateful"}
"""Works of `bench.peers.riverrun_program`."""
EVENTS = 1_000
STARTS_WITHIN = 5.0
SMALL = 800
"""Megabytes."""


@dataclass(frozen=True)
class Sizes:
    starts: int = 5
    quiet: float = 60.0
    """Seconds without an event, after which memory is looked at."""

    @property
    def smaller(self) -> Sizes:
        return Sizes(1, 5.0)


class StartBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=0)
        self.sizes, self.starter = sizes, Starter(settings, folder)

    def measure(self, name: str, work: str) -> None:
        self.console.print(name, style="dim")
        topic = self.topic(f"start-{work}")
        load.produce(self.client, topic, load.events(EVENTS, 100, per_second=100), EVENTS)
        quiet = [0.0] * (self.sizes.starts - 1) + [self.sizes.quiet]
        found = [self._started(work, topic, turn, quiet=each) for turn, each in enumerate(quiet)]
        seconds = [took for took, _ in found]
        for turn, took in enumerate(seconds, start=1):
            self.report.figures[f"{name}, start {turn}: seconds to the first row"] = round(took, 2)
        median = statistics.median(seconds)
        self.report.at_most(f"{name}: seconds to the first row", STARTS_WITHIN, median)
        self.report.at_most(f"{name}, at rest: MB", SMALL, found[-1][1])

    def _started(self, work: str, topic: str, turn: int, *, quiet: float) -> tuple[float, int]:
        """Seconds from the start of its process until a reader could have the first row, and
        memory after so long a time without events."""
        output = self.topic(f"started-{work}-{turn}", table=work == "stateful")
        plan = {"work": work, "input": topic, "output": output, "table": "", "parallel": 2,
                "brokers": self.client["bootstrap.servers"]}  # fmt: skip
        written = [Partition(output, number) for number in range(PARTITIONS)]
        with running(self.starter, PEERS["riverrun"], plan) as process:
            watch = Watch(process, self.client, written)
            took = watch.first_row()
            time.sleep(quiet)
            return took, watch.megabytes()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = StartBench(settings, sizes, Path(folder))
        for name, work in PROGRAMS.items():
            run.measure(name, work)
        return run.report
