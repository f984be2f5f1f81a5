"""`riverrun bench delivery`: what exactly once costs, and bulk upserts.

- Stream: every event is a record, key and value, in another topic: as many out as in.
- Table: 10-second windows of 100,000 users, about as many rows out as events in.
- PostgreSQL: the same rows as upserts, in bulk and by psycopg's executemany.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load
from riverrun.bench.database import upserts
from riverrun.bench.harness import Bench
from riverrun.bench.report import Report
from riverrun.config import Settings

KEYS = 100_000
PER_SECOND = 10_000


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    batch: int = 250_000
    rows: int = 200_000
    """Of the table in PostgreSQL."""

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(200_000, 50_000, 20_000)


class DeliveryBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def topics(self) -> None:
        events = load.events(self.sizes.events, KEYS, per_second=PER_SECOND)
        topic = self.topic("views")
        load.produce(self.client, topic, events, self.sizes.events)
        for kind in ("passed", "tumbling"):
            lenient = self._rate("ours", topic, kind, "at least once")
            exact = self._rate("ours", topic, kind, "exactly once")
            theirs = self._rate("raw_spark", topic, kind, "at least once")
            what = "stream" if kind == "passed" else "table"
            self.report.at_least(f"{what}: exactly once, of at least once", 0.8, exact / lenient)
            self.report.at_least(f"{what}: exactly once, of Spark's Kafka sink", 1, exact / theirs)

    def _rate(self, engine: str, topic: str, kind: str, delivery: str) -> float:
        name = f"{kind}-{engine}-{delivery.replace(' ', '-')}"
        plan = self.plan(topic, name, once=True, kind=kind, delivery=delivery)
        return self.steady(name, self.finished(engine, plan))

    def database(self) -> None:
        found = upserts(self.settings, rows=self.sizes.rows)
        for name in ("upserts per second", "upserts per second, executemany"):
            self.report.figures[f"PostgreSQL: {name}"] = round(found[name])
        ratio = found["times executemany"]
        self.report.at_least("PostgreSQL: upserts per second, of executemany", 5, ratio)


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = DeliveryBench(settings, sizes, Path(folder))
        run.database()
        run.topics()
        return run.report
