"""What benchmarks share: one broker, one report, and engines in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from riverrun.bench import load
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.embedded import jars, kafka
from riverrun.errors import JobError
from riverrun.kafka import admin
from riverrun.spark.session import cores

PARTITIONS = 4
PER_SECOND = 2_000
"""Events per second of event time: 20,000 per window, so that 100,000 keys give a row per event."""
WAIT = 1800.0
STREAMS = ("passed", "filtered", "streams", "table", "fraud", "fraud_by_average", "endless_pattern")
"""Kinds of programs whose output is a stream."""
Batches = list[dict[str, Any]]
Plan = dict[str, Any]


class Bench:
    """One broker, one report, several processes one after the other."""

    def __init__(self, settings: Settings, folder: Path, *, batch: int) -> None:
        self.settings, self.folder, self.batch = settings, folder, batch
        self.client = kafka.ensure(settings)
        self.report = Report()
        self.console = Console(stderr=True)
        self.run = f"bench{os.getpid()}"

    def topic(self, name: str, *, table: bool = False) -> str:
        topic = f"{self.run}-{name}"
        config = {"cleanup.policy": "compact"} if table else {}
        admin.create_topic(self.client, topic, partitions=PARTITIONS, config=config)
        return topic

    def plan(self, topic: str, name: str, *, once: bool, **more: Any) -> Plan:
        """What an engine is told; it runs to the end of the topic, or until it is stopped."""
        return {
            "brokers": self.client["bootstrap.servers"],
            "input": topic,
            "output": self.topic(f"out-{name}", table=more.get("kind") not in STREAMS),
            "batch": self.batch,
            "once": once,
            "kind": "tumbling",
            "emit": "ready",
            "delivery": "exactly once",
            "parallel": cores(self.settings.master),
            "jars": [str(jar) for jar in jars.fetch("spark-kafka", self.settings)],
            "checkpoint": str(self.folder / f"checkpoint-{name}"),
            "result": str(self.folder / f"{name}.json"),
            **more,
        }

    def process(self, engine: str, plan: Plan) -> subprocess.Popen[bytes]:
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

    def finished(self, engine: str, plan: Plan) -> Batches:
        with self.process(engine, plan) as process:
            try:
                if process.wait(WAIT):
                    raise self.failed(plan)
            finally:
                process.terminate()
        return batches_of(plan)

    def wait_for(self, process: subprocess.Popen[bytes], plan: Plan, events: int) -> None:
        give_up = time.monotonic() + WAIT
        while sum(batch["events"] for batch in batches_of(plan)) < events:
            if process.poll() is not None or time.monotonic() > give_up:
                process.kill()
                raise self.failed(plan)
            time.sleep(0.1)

    def stop(self, process: subprocess.Popen[bytes], plan: Plan) -> None:
        Path(f"{plan['result']}.stop").touch()
        if process.wait(120):
            raise self.failed(plan)

    def trickled(self, engine: str, plan: Plan, events: int, *, pause: float) -> Batches:
        """A thousand events to get going, then one by one."""
        first = load.events(1000, 100, per_second=PER_SECOND)
        load.produce(self.client, plan["input"], first, 1000)
        with self.process(engine, plan) as process:
            self.wait_for(process, plan, 1000)
            for number in range(events):
                start = 2000 + number * 100
                one = load.events(1, 100, per_second=PER_SECOND, start=start, seed=number)
                load.produce(self.client, plan["input"], one, 1)
                time.sleep(pause)
            self.stop(process, plan)
        return batches_of(plan)

    def failed(self, plan: Plan) -> JobError:
        log = self.folder / f"{Path(plan['result']).stem}.log"
        return JobError("a benchmark process failed", got=log.read_text()[-2000:])

    def steady(self, name: str, batches: Batches) -> float:
        """Events per second in whole batches, after the first, which warms up."""
        whole = [batch for batch in batches[1:] if 2 * batch["events"] > self.batch]
        events = sum(batch["events"] for batch in whole)
        rate: float = events / sum(batch["seconds"] for batch in whole)
        cpu = (whole[-1]["cpu"] - batches[0]["cpu"]) / events * 1e6
        self.report.figures[f"{name}: events/s"] = round(rate)
        self.report.figures[f"{name}: CPU us/event"] = round(cpu, 2)
        self.report.figures[f"{name}: first batch, s"] = batches[0]["seconds"]
        return rate


def cpu_per_event(batches: Batches) -> float:
    """Microseconds after the first batch, which warms up."""
    events = sum(batch["events"] for batch in batches[1:])
    return float((batches[-1]["cpu"] - batches[0]["cpu"]) / events * 1e6)


def batches_of(plan: Plan) -> Batches:
    """What an engine has noted of its batches so far."""
    file = Path(plan["result"])
    found: Batches = json.loads(file.read_text()) if file.exists() else []
    return found
