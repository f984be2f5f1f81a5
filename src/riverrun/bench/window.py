"""`riverrun bench window`: windowed counts against plain PySpark, in one run on one broker."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from riverrun.bench import load
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.connectors import admin
from riverrun.embedded import jars, kafka
from riverrun.errors import JobError
from riverrun.spark.session import cores

PARTITIONS = 4
PER_SECOND = 2_000
"""Events per second of event time: 20,000 per window, so that 100,000 keys give a row per event."""

WAIT = 600.0


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


class WindowBench:
    """One broker, one report, several processes one after the other."""

    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        self.settings, self.sizes, self.folder = settings, sizes, folder
        self.client = kafka.ensure(settings)
        self.report = Report()
        self.console = Console(stderr=True)
        self.run = f"bench{os.getpid()}"

    def throughput(self, keys: int, bound: float) -> None:
        """Both programs over the same events, final results to Kafka, steady state."""
        topic = self._topic(f"{keys}-keys")
        values = load.events(self.sizes.events, keys, per_second=PER_SECOND)
        load.produce(self.client, topic, values, self.sizes.events)
        rates = {}
        for engine in ("raw_spark", "ours"):
            batches = self._finished(engine, self._plan(topic, f"{engine}-{keys}", once=True))
            rates[engine] = self._steady(f"{engine}, {keys} keys", batches)
        ratio = rates["ours"] / rates["raw_spark"]
        self.report.at_least(f"events/s of raw PySpark, {keys:,} keys", bound, ratio)

    def _steady(self, name: str, batches: list[dict[str, Any]]) -> float:
        """Events per second after the first batch."""
        steady = [batch for batch in batches[1:] if batch["events"]]
        events = sum(batch["events"] for batch in steady)
        rate: float = events / sum(batch["seconds"] for batch in steady)
        cpu = (steady[-1]["cpu"] - batches[0]["cpu"]) / events * 1e6
        self.report.figures[f"{name}: events/s"] = round(rate)
        self.report.figures[f"{name}: CPU us/event"] = round(cpu, 2)
        self.report.figures[f"{name}: first batch, s"] = batches[0]["seconds"]
        return rate

    def empty_batch(self) -> None:
        """A batch of one event, while the query runs on."""
        medians = {}
        for engine in ("raw_spark", "ours"):
            topic = self._topic(f"empty-{engine}")
            load.produce(self.client, topic, load.events(1000, 100, per_second=PER_SECOND), 1000)
            medians[engine] = statistics.median(self._trickle(engine, topic))
            self.report.figures[f"{engine}: nearly empty batch, s"] = medians[engine]
        ratio = medians["ours"] / medians["raw_spark"]
        self.report.at_most("nearly empty batch, of raw PySpark's", 1.0, ratio)

    def _trickle(self, engine: str, topic: str) -> list[float]:
        plan = self._plan(topic, f"{engine}-empty", once=False)
        with self._process(engine, plan) as process:
            self._await(process, plan, 1000)
            for number in range(12):
                one = load.events(
                    1, 100, per_second=PER_SECOND, start=2000 + number * 100, seed=number
                )
                load.produce(self.client, topic, one, 1)
                time.sleep(1.5)
            Path(f"{plan['result']}.stop").touch()
            process.wait(60)
        small = [b["seconds"] for b in _read(plan) if 0 < b["events"] < 10]
        return small[2:]

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
        topic = self._topic(f"state-{keys}")
        load.produce(self.client, topic, load.every_key(keys), keys)
        plan = self._plan(topic, f"state-{keys}", once=False)
        plan |= {"window": "1000 days", "emit": "final", "batch": max(self.sizes.batch, keys // 10)}
        with self._process("ours", plan) as process:
            self._await(process, plan, keys)
            done = keys
            for number in range(9):
                size = self.sizes.state_batch
                few = self.sizes.small_state  # the same events, however much state there is
                values = load.events(size, few, per_second=PER_SECOND, seed=number)
                load.produce_at_once(self.client, topic, values, size)
                done += size
                self._await(process, plan, done)
            Path(f"{plan['result']}.stop").touch()
            process.wait(60)
        return _whole_batches(_read(plan)[1:], self.sizes.state_batch)

    def _topic(self, name: str) -> str:
        topic = f"{self.run}-{name}"
        admin.create_topic(self.client, topic, partitions=PARTITIONS)
        return topic

    def _plan(self, topic: str, name: str, *, once: bool) -> dict[str, Any]:
        output = f"{self.run}-out-{name}"
        admin.create_topic(self.client, output, partitions=PARTITIONS)
        return {
            "brokers": self.client["bootstrap.servers"],
            "input": topic,
            "output": output,
            "batch": self.sizes.batch,
            "once": once,
            "window": "10 seconds",
            "emit": "ready",
            "parallel": cores(self.settings.master),
            "jars": [str(jar) for jar in jars.fetch("spark-kafka", self.settings)],
            "checkpoint": str(self.folder / f"checkpoint-{name}"),
            "result": str(self.folder / f"{name}.json"),
        }

    def _process(self, engine: str, plan: dict[str, Any]) -> subprocess.Popen[bytes]:
        self.console.print(f"running {engine} on {plan['input']}", style="dim")
        log = (self.folder / f"{Path(plan['result']).stem}.log").open("w")
        module = f"riverrun.bench.{engine}"
        environment = {**os.environ, "RIVERRUN_HOME": str(self.settings.home)}
        return subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(plan)],
            stdout=log,
            stderr=log,
            env=environment,
        )

    def _finished(self, engine: str, plan: dict[str, Any]) -> list[dict[str, Any]]:
        with self._process(engine, plan) as process:
            try:
                if process.wait(WAIT):
                    raise self._failed(plan)
            finally:
                process.terminate()
        return _read(plan)

    def _await(self, process: subprocess.Popen[bytes], plan: dict[str, Any], events: int) -> None:
        give_up = time.monotonic() + WAIT
        while sum(batch["events"] for batch in _read(plan)) < events:
            if process.poll() is not None or time.monotonic() > give_up:
                process.kill()
                raise self._failed(plan)
            time.sleep(0.1)

    def _failed(self, plan: dict[str, Any]) -> JobError:
        log = self.folder / f"{Path(plan['result']).stem}.log"
        return JobError("a benchmark process failed", got=log.read_text()[-2000:])


def _read(plan: dict[str, Any]) -> list[dict[str, Any]]:
    file = Path(plan["result"])
    found: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    return found


def _whole_batches(batches: list[dict[str, Any]], size: int) -> list[float]:
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
