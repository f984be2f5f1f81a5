"""`riverrun bench cluster`: the window benchmark in local mode and on two workers, in one run."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load, results
from riverrun.bench.harness import PER_SECOND, Bench
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.embedded import spark_cluster

KEYS = 100_000
WORKERS = 2
COLUMNS = ("user", "window_start", "window_end", "views", "ms")


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    batch: int = 250_000

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(200_000, 50_000)


class ClusterBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def compare(self, cluster: spark_cluster.Cluster) -> None:
        """CPU of all of Spark's processes per event, and the tables."""
        topic = self.topic("cluster")
        values = load.events(self.sizes.events, KEYS, per_second=PER_SECOND)
        load.produce(self.client, topic, values, self.sizes.events)
        workers = [worker.pid for worker in cluster.workers]
        cpu, outputs = {}, {}
        for name, more in (
            ("local", {"master": f"local[{WORKERS}]"}),
            ("cluster", {"master": cluster.master, "processes": [cluster.pid, *workers]}),
        ):
            plan = self.plan(topic, name, once=True, **more)
            self.steady(name, self.finished("ours", plan))
            cpu[name] = self.report.figures[f"{name}: CPU us/event"]
            outputs[name] = results.table(self.client, plan["output"], COLUMNS)
        self.report.at_most("CPU per event of local mode", 1.5, cpu["cluster"] / cpu["local"])
        self.report.figures["results"] = outputs["local"].height
        different = results.differing(outputs["local"], outputs["cluster"])
        self.report.at_most("results that differ", 0, different)


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = ClusterBench(settings, sizes, Path(folder))
        running = spark_cluster.status(settings)
        cluster = spark_cluster.up(settings, workers=WORKERS)
        try:
            run.compare(cluster)
        finally:
            if running is None:
                spark_cluster.down(settings)
        return run.report
