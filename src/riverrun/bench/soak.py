"""`riverrun bench windows --soak`: whether memory stays flat while users come and go."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from riverrun.bench import load
from riverrun.bench.harness import Bench, Plan, batches_of
from riverrun.bench.report import Report
from riverrun.config import Settings

PER_SECOND = 5_000
SAMPLE = 5.0
"""Seconds between two samples."""
TICK = 0.1
Sample = dict[str, Any]


class Soak(Bench):
    """Hopping and session windows in one program, in real time."""

    def watch(self, seconds: int) -> None:
        topic = self.topic("soak")
        state = self.folder / "soak.state"
        plan = self.plan(topic, "soak", once=False, kind="both", state=str(state))
        with self.process("ours", plan) as process:
            try:
                traffic = load.Traffic(self.client, topic, per_second=PER_SECOND)
                samples = self._samples(process, plan, traffic, seconds)
                self._behind(plan, traffic.sent)
                self.stop(process, plan)
            finally:
                process.terminate()
        self._judge(samples)
        self._state(json.loads(state.read_text())[-1])

    def _samples(
        self, process: subprocess.Popen[bytes], plan: Plan, traffic: load.Traffic, seconds: int
    ) -> list[Sample]:
        began_at = time.monotonic()
        samples: list[Sample] = []
        while (passed := time.monotonic() - began_at) < seconds:
            if process.poll() is not None:
                raise self.failed(plan)
            traffic.catch_up()
            if passed >= SAMPLE * (len(samples) + 1):
                samples.append({"seconds": round(passed, 1), **self._sample(process.pid, plan)})
            time.sleep(TICK)
        traffic.end()
        return samples

    def _sample(self, pid: int, plan: Plan) -> Sample:
        checkpoint = self.settings.checkpoint_root / f"bench-{plan['output']}" / "query"
        read = sum(batch["events"] for batch in batches_of(plan))
        return {**memory(pid), "checkpoint": _size(Path(str(checkpoint))), "events": read}

    def _behind(self, plan: Plan, sent: int) -> None:
        behind = sent - sum(batch["events"] for batch in batches_of(plan))
        self.report.figures["events sent"] = sent
        self.report.at_most("seconds behind at the end", 15.0, behind / PER_SECOND)

    def _judge(self, samples: list[Sample]) -> None:
        quarter = max(len(samples) // 4, 1)
        second, last = samples[quarter : 2 * quarter], samples[-quarter:]
        self.report.samples = samples
        for what in ("memory", "jvm", "python", "checkpoint"):
            for name, part in (("second", second), ("last", last)):
                size = statistics.median(sample[what] for sample in part)
                self.report.figures[f"{what}, {name} quarter, MB"] = round(size / 1e6, 1)
        before, after = (
            self.report.figures[f"memory, {each} quarter, MB"] for each in ("second", "last")
        )
        self.report.at_most("memory, last quarter of the second's", 1.2, after / before)

    def _state(self, size: dict[str, int]) -> None:
        for what in ("segments", "rows", "bytes"):
            self.report.figures[f"state at the end, {what}"] = size[what]
        self.report.at_most("state at the end, seconds of input", 60, size["rows"] / PER_SECOND)


def memory(pid: int) -> dict[str, int]:
    """Resident memory of a process and all below it: of JVMs, of Python, and together."""
    found = {"jvm": 0, "python": 0}
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        try:
            kind = "jvm" if process.name() == "java" else "python"
            found[kind] += process.memory_info().rss
        except psutil.NoSuchProcess:
            pass
    return {**found, "memory": sum(found.values())}


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # Spark tidies up meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total


def soak(settings: Settings, seconds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = Soak(settings, Path(folder), batch=250_000)
        run.watch(seconds)
        return run.report
