"""`riverrun bench profile`: where each microsecond of an event goes, from topic to topic."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.bench import load
from riverrun.bench.harness import WAIT, Bench, Plan, cpu_per_event
from riverrun.bench.joins import clicks, searches
from riverrun.bench.report import Report
from riverrun.config import Settings

REST = "Spark: JVM, shuffle, workers"
"""What a run on Spark takes and the same classes without it do not."""


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    keys: int = 100_000
    batch: int = 250_000

    @property
    def smaller(self) -> Sizes:
        return Sizes(200_000, 10_000, 50_000)


class ProfileBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def views(self) -> None:
        """The filter and the windowed count, of the same events."""
        topic, count = self.topic("profile-views"), self.sizes.events
        values = load.events(count, self.sizes.keys, per_second=2000)
        load.produce(self.client, topic, values, count)
        for what, kind in (("filter", "filtered"), ("count", "tumbling")):
            self._profile(what, "ours", topic, kind=kind)

    def joined(self) -> None:
        count = self.sizes.events // 2
        left, right = self.topic("profile-searches"), self.topic("profile-clicks")
        load.produce(self.client, left, searches(count), count)
        load.produce(self.client, right, clicks(count), count)
        self._profile("join", "join_ours", left, kind="streams", right=right, fresh=True)

    def _profile(self, what: str, engine: str, topic: str, **more: Any) -> None:
        on_spark = self.plan(topic, f"{what}-spark", once=True, **more)
        whole = cpu_per_event(self.finished(engine, on_spark))
        plan = self.plan(topic, f"{what}-stages", once=True, **more)
        plan["scratch"] = self.topic(f"{what}-scratch")
        found = self._stages(plan)
        stages = found["ours"] | {REST: whole - sum(found["ours"].values())}
        for name, took in stages.items():
            self.report.figures[f"{what}, {name}: CPU us/event"] = round(took, 2)
        least = sum(found["floor"].values())
        for name, took in found["floor"].items():
            self.report.figures[f"{what}, floor of {name}: CPU us/event"] = round(took, 2)
        self.report.figures[f"{what}, all on Spark: CPU us/event"] = round(whole, 2)
        self.report.at_most(f"{what}: CPU, of the floor", 2.0, whole / least)

    def _stages(self, plan: Plan) -> dict[str, dict[str, float]]:
        os.environ["POLARS_MAX_THREADS"] = "1"  # as in Spark's workers
        with self.process("profile_ours", plan) as process:
            if process.wait(WAIT):
                raise self.failed(plan)
        found: dict[str, dict[str, float]] = json.loads(Path(plan["result"]).read_text())
        return found


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        running = ProfileBench(settings, sizes, Path(folder))
        running.views()
        running.joined()
        return running.report
