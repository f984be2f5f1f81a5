"""`riverrun bench window`: windowed counts against plain PySpark, in one run on one broker."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load
from riverrun.bench.harness import PER_SECOND, Batches, Bench, batches_of
from riverrun.bench.report import Report
from riverrun.config import Settings


@dataclass(frozen=True)
class Sizes:
    events: int = 2_000_000
    batch: int = 250_000
    small_state: int = 100_000
    large_state: int = 5_000_000
    state_batch: int = 100_000

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(200_000, 50_000, 10_000, 100_000, 10_000)


class WindowBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def throughput(self, keys: int, bound: float) -> None:
        """Both programs over the same events, final results to Kafka, steady state."""
        topic = self.topic(f"{keys}-keys")
        values = load.events(self.sizes.events, keys, per_second=PER_SECOND)
        load.produce(self.client, topic, values, self.sizes.events)
        rates = {}
        for engine in ("raw_spark", "ours"):
            batches = self.finished(engine, self.plan(topic, f"{engine}-{keys}", once=True))
            rates[engine] = self.steady(f"{engine}, {keys} keys", batches)
        ratio = rates["ours"] / rates["raw_spark"]
        self.report.at_least(f"events/s of raw PySpark, {keys:,} keys", bound, ratio)

    def empty_batch(self) -> None:
        """A batch of one event, while the query runs on."""
        medians = {}
        for engine in ("raw_spark", "ours"):
            topic = self.topic(f"empty-{engine}")
            medians[engine] = statistics.median(self._trickle(engine, topic))
            self.report.figures[f"{engine}: nearly empty batch, s"] = medians[engine]
        ratio = medians["ours"] / medians["raw_spark"]
        self.report.at_most("nearly empty batch, of raw PySpark's", 1.0, ratio)

    def _trickle(self, engine: str, topic: str) -> list[float]:
        plan = self.plan(topic, f"{engine}-empty", once=False)
        batches = self.trickled(engine, plan, 12, pause=1.5)
        return [b["seconds"] for b in batches if 0 < b["events"] < 10][2:]

    def state_cost(self) -> None:
        """The same batch against little and against much state."""
        medians = []
        for keys in (self.sizes.small_state, self.sizes.large_state):
            seconds = self._state_batches(keys)
            medians.append(statistics.median(seconds))
            self.report.figures[f"batch of {self.sizes.state_batch:,} events, {keys:,} keys, s"] = (
                medians[-1]
            )
        self.report.at_most(
            "time with much state, of that with little", 1.5, medians[1] / medians[0]
        )

    def _state_batches(self, keys: int) -> list[float]:
        topic = self.topic(f"state-{keys}")
        load.produce(self.client, topic, load.every_key(keys), keys)
        plan = self.plan(topic, f"state-{keys}", once=False, kind="endless", emit="final")
        plan["batch"] = max(self.sizes.batch, keys // 10)
        with self.process("ours", plan) as process:
            self.wait_for(process, plan, keys)
            done = keys
            for number in range(9):
                size = self.sizes.state_batch
                few = self.sizes.small_state  # the same events, however much state there is
                values = load.events(size, few, per_second=PER_SECOND, seed=number)
                load.produce_at_once(self.client, topic, values, size)
                done += size
                self.wait_for(process, plan, done)
            self.stop(process, plan)
        return _whole_batches(batches_of(plan)[1:], self.sizes.state_batch)


def _whole_batches(batches: Batches, size: int) -> list[float]:
    """Seconds of the batches that took all events of a transaction; the first ones warm up."""
    return [batch["seconds"] for batch in batches if size <= batch["events"] < size + 100][2:]


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = WindowBench(settings, sizes, Path(folder))
        run.throughput(100_000, 3.0)
        run.throughput(1_000, 1.5)
        run.empty_batch()
        run.state_cost()
        return run.report
