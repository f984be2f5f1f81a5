"""`riverrun bench versions`: CPU per event of this version and of another, in interleaved pairs.

Machines are shared and noisy, so the two run in turns over the same records, and what counts is
the ratio within each pair.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from riverrun.bench import load
from riverrun.bench.harness import Bench, Plan, cpu_per_event
from riverrun.bench.joins import clicks, searches
from riverrun.bench.report import Report
from riverrun.config import Settings

DRAWS = 2000
"""From which the interval of the median is told."""


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    pairs: int = 500_000
    keys: int = 100_000
    batch: int = 250_000

    @property
    def smaller(self) -> Sizes:
        return Sizes(200_000, 50_000, 10_000, 50_000)


class VersionsBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, other: Path, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes, self.sources = sizes, {"other": other, "this": Path(__file__).parents[2]}
        self.side = "this"

    def process(self, engine: str, plan: Plan) -> subprocess.Popen[bytes]:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(self.sources[self.side])
        try:
            return super().process(engine, plan)
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before

    def views(self, turns: int) -> None:
        """The windowed count, and rows that only pass."""
        count = self.sizes.events
        topic = self.topic("versions-views")
        values = load.events(count, self.sizes.keys, per_second=2000)
        load.produce(self.client, topic, values, count)
        for what, kind in (("window", "tumbling"), ("passed", "passed")):
            self._pairs(what, "ours", turns, partial(self.plan, topic, once=True, kind=kind))

    def joins(self, turns: int) -> None:
        count = self.sizes.pairs
        left, right = self.topic("versions-searches"), self.topic("versions-clicks")
        load.produce(self.client, left, searches(count), count)
        load.produce(self.client, right, clicks(count), count)

        def plan(name: str) -> Plan:
            return self.plan(left, name, once=True, right=right, kind="streams", fresh=True)

        self._pairs("joins", "join_ours", turns, plan)

    def _pairs(self, what: str, engine: str, turns: int, plan: Callable[[str], Plan]) -> None:
        ratios = []
        for turn in range(turns):
            cpu = {}
            sides = ("other", "this") if turn % 2 else ("this", "other")
            for self.side in sides:
                made = plan(f"{what}-{self.side}-{turn}")
                cpu[self.side] = cpu_per_event(self.finished(engine, made))
            ratios.append(cpu["this"] / cpu["other"])
            self.report.figures[f"{what}, pair {turn + 1}: CPU us/event, this / other"] = (
                f"{cpu['this']:.2f} / {cpu['other']:.2f}"
            )
        low, high = _interval(ratios)
        self.report.figures[f"{what}: median ratio"] = round(statistics.median(ratios), 3)
        self.report.figures[f"{what}: 95 % of medians from"] = round(low, 3)
        self.report.at_most(f"{what}: upper end of the interval", 1.05, high)


def _interval(ratios: list[float]) -> tuple[float, float]:
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-DRAWS // 40]


def bench(settings: Settings, sizes: Sizes, other: Path, turns: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        running = VersionsBench(settings, sizes, other, Path(folder))
        running.views(turns)
        running.joins(turns)
        return running.report
