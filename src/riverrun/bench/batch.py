"""`riverrun bench batch`: what a batch costs whatever is in it, part by part."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from riverrun.bench.harness import Batches, Bench
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.spark.progress import PARTS, WHOLE

PROGRAMS = {
    "no state": ("passed", 0.12),
    "one exchange": ("tumbling", 0.25),
    "two exchanges": ("twice", None),
}
"""Kinds of `bench.ours`, and the seconds that a batch may take."""
WARM = 5


@dataclass(frozen=True)
class Sizes:
    batches: int = 40

    @property
    def smaller(self) -> Sizes:
        return Sizes(12)


class BatchBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=250_000)
        self.sizes = sizes

    def measure(self, name: str, kind: str, bound: float | None) -> None:
        topic = self.topic(f"batch-{kind}")
        plan = self.plan(topic, f"batch-{kind}", once=False, kind=kind, emit="changes")
        batches = self.trickled("ours", plan, self.sizes.batches, pause=0.7)
        small = [each for each in batches if 0 < each["events"] < 10][WARM:]
        for part, milliseconds in table(small).items():
            self.report.figures[f"{name}, {part}: ms"] = milliseconds
        if bound is not None:
            whole = statistics.median(each["seconds"] for each in small)
            self.report.at_most(f"{name}: seconds of a nearly empty batch", bound, whole)


def table(batches: Batches) -> dict[str, float]:
    """Medians, in milliseconds; what processes did between batches is counted in CPU."""
    parts = {
        part: [_part(each["parts"], names) for each in batches] for part, names in PARTS.items()
    }
    whole = [float(each["parts"][WHOLE]) for each in batches]
    found = {"whole": whole, **parts}
    named = zip(*parts.values(), strict=True)
    found["between"] = [all_ - sum(each) for all_, each in zip(whole, named, strict=True)]
    for who in ("JVM", "Python"):
        spent = [each["cpu_of"][who] for each in batches]
        found[f"CPU of {who}"] = [1000 * (after - before) for before, after in pairwise(spent)]
    return {name: round(statistics.median(each), 1) for name, each in found.items()}


def _part(took: Mapping[str, Any], names: tuple[str, ...]) -> float:
    return float(sum(took.get(name, 0) for name in names))


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        running = BatchBench(settings, sizes, Path(folder))
        for name, (kind, bound) in PROGRAMS.items():
            running.measure(name, kind, bound)
        return running.report
