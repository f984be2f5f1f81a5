"""`riverrun bench patterns`: event patterns next to the windowed count of `bench window`.

100,000 users and 2,000 views a second, so that each has about ten in 10 minutes: three short views
or more (40 % are), and then a very long one (5 %).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load, results, rules
from riverrun.bench.harness import PER_SECOND, Bench
from riverrun.bench.report import Report
from riverrun.config import Settings

CLOSING = 1_000
COLUMNS = ("user", "at", "views")
ENDLESS = 60
"""Seconds in which the pattern that never completes would have to."""


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    keys: int = 100_000
    batch: int = 250_000
    per_key_events: int = 750_000
    """For the version with state per key, which is slow."""

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(200_000, 10_000, 50_000, 150_000)


class PatternsBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def throughput(self) -> None:
        """The same events counted in windows, matched, and matched with a look at earlier rows."""
        topic = self._filled(self.sizes.events)
        counted = self._rate("tumbling", topic)
        matched = self._rate("fraud", topic)
        earlier = self._rate("fraud_by_average", topic)
        self.report.at_least("fraud: events/s of the windowed count", 0.7, matched / counted)
        self.report.at_least("fraud by average: events/s of fraud", 0.5, earlier / matched)

    def per_key(self) -> None:
        """A state machine for each key, which gives the same matches."""
        topic = self._filled(self.sizes.per_key_events)
        found = []
        rates = {}
        for engine in ("ours", "per_key_pattern"):
            plan = self.plan(topic, f"{engine}-per-key", once=True, kind="fraud")
            batches = self.finished(engine, plan)
            rates[engine] = self.steady(f"fraud, {self.sizes.per_key_events:,}, {engine}", batches)
            found.append(results.table(self.client, plan["output"], COLUMNS))
        ratio = rates["ours"] / rates["per_key_pattern"]
        self.report.at_least("fraud: events/s of per_key_pattern", 10, ratio)
        self.report.figures["fraud: results"] = found[0].height
        self.report.at_most("fraud: results that differ", 0, results.differing(*found))

    def endless(self) -> None:
        """A pattern that begins everywhere and never ends: what it keeps is bounded by its time."""
        topic = self._filled(self.sizes.per_key_events)
        file = self.folder / "endless.state"
        self.finished(
            "ours", self.plan(topic, "endless", once=True, kind="endless_pattern", state=str(file))
        )
        sizes = json.loads(file.read_text())
        for what in ("rows", "bytes"):
            self.report.figures[f"endless: state, {what} at most"] = max(s[what] for s in sizes)
        alive = (ENDLESS + 1) * PER_SECOND
        most = max(each["rows"] for each in sizes)
        self.report.at_most("endless: rows of state, of those within its time", 3, most / alive)
        self.report.at_most("endless: rows of state at the end", CLOSING, sizes[-1]["rows"])

    def _filled(self, count: int) -> str:
        topic = self.topic(f"views-{count}-{len(self.report.figures)}")
        events = load.events(count, self.sizes.keys, per_second=PER_SECOND)
        load.produce(self.client, topic, events, count)
        load.produce(self.client, topic, load.closing(CLOSING), CLOSING)
        return topic

    def _rate(self, kind: str, topic: str) -> float:
        batches = self.finished("ours", self.plan(topic, f"{kind}-rate", once=True, kind=kind))
        return self.steady(kind, batches)


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = PatternsBench(settings, sizes, Path(folder))
        run.throughput()
        run.per_key()
        run.endless()
        rules.measure(run.report, sizes.events // 2, sizes.batch)
        return run.report
