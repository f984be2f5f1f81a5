"""`riverrun bench windows`: hopping, session and sliding windows against what PySpark offers.

- Hopping: 10,000 users and 10,000 events a second, so that each has about one a second and ten in a
  window, and windows of 10 seconds every second give a result per event.
- Session: 10,000 users and 2,000 events a second, so that each has one every 5 seconds: with a gap
  of 10 seconds a session has 7 events on average, and then ends.
- Sliding: 1,000 users and 2,000 events a second, so that there are 120 in a window of a minute.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load, results
from riverrun.bench.harness import Bench
from riverrun.bench.report import Report
from riverrun.config import Settings

CLOSING = 1_000
"""Events at the end that close all windows before them."""


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    batch: int = 250_000
    per_key_events: int = 1_000_000
    """For the version with state per key, which is slow."""

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(200_000, 50_000, 200_000)


@dataclass(frozen=True)
class Case:
    """A kind of window, the engine to compare with, and what is to be reached."""

    kind: str
    keys: int
    per_second: int
    against: str
    bound: float
    columns: tuple[str, ...] = ("user", "window_start", "window_end", "views", "ms")

    def events(self, count: int) -> Iterator[bytes]:
        return load.events(count, self.keys, per_second=self.per_second)


CASES = (
    Case("hopping", 10_000, 10_000, "raw_spark", 1.5),
    Case("session", 10_000, 2_000, "raw_spark", 1.5),
    Case("sliding", 1_000, 2_000, "per_key_state", 10, ("user", "ms", "at", "views", "total")),
)


class WindowsBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def compare(self, case: Case) -> None:
        """Both engines: events per second, the same results, and what state is left."""
        topic = self._filled(case, self.sizes.events)
        _, our_rate = self._run("ours", case, topic)
        if case.against == "per_key_state" and self.sizes.per_key_events < self.sizes.events:
            topic = self._filled(case, self.sizes.per_key_events)
        ours = self._watched(case, topic)
        theirs, their_rate = self._run(case.against, case, topic)
        self.report.at_least(
            f"{case.kind}: events/s of {case.against}", case.bound, our_rate / their_rate
        )
        self._same(case, ours, theirs)

    def _filled(self, case: Case, count: int) -> str:
        """A topic with events, and then the few that close all windows."""
        topic = self.topic(f"{case.kind}-{count}")
        load.produce(self.client, topic, case.events(count), count)
        load.produce(self.client, topic, load.closing(CLOSING), CLOSING)
        return topic

    def _watched(self, case: Case, topic: str) -> str:
        """The topic with the results of a run of its own: looking at state takes time."""
        name = f"watched-{topic}"
        state = self.folder / f"{name}.state"
        plan = self.plan(topic, name, once=True, kind=case.kind, state=str(state))
        self.finished("ours", plan)
        self._state(case.kind, state)
        output: str = plan["output"]
        return output

    def _run(self, engine: str, case: Case, topic: str) -> tuple[str, float]:
        """The topic with the results, and the rate."""
        plan = self.plan(topic, f"{engine}-{topic}", once=True, kind=case.kind)
        batches = self.finished(engine, plan)
        return plan["output"], self.steady(f"{case.kind}, {engine}", batches)

    def _same(self, case: Case, ours: str, theirs: str) -> None:
        mine, others = (results.table(self.client, each, case.columns) for each in (ours, theirs))
        self.report.figures[f"{case.kind}: results"] = mine.height
        different = results.differing(mine, others)
        self.report.at_most(f"{case.kind}: results that differ", 0, different)

    def _state(self, kind: str, file: Path) -> None:
        """What the windows of all events took at most, and what is left when they have closed."""
        sizes = json.loads(file.read_text())
        for what in ("segments", "rows", "bytes"):
            self.report.figures[f"{kind}: state, {what} at most"] = max(s[what] for s in sizes)
            self.report.figures[f"{kind}: state, {what} at the end"] = sizes[-1][what]
        # all that may be left is of the closing events themselves
        self.report.at_most(f"{kind}: rows of state at the end", CLOSING, sizes[-1]["rows"])


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = WindowsBench(settings, sizes, Path(folder))
        for case in CASES:
            run.compare(case)
        return run.report
