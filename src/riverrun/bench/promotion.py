"""The part of `riverrun bench restart` that promotes: how long a switch takes, and what its readers
see of it.

Two versions run under a steady load, and become the public one in turns. Somebody reads what is
public all the while: the longest silence that they hear, next to the longest without a switch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from riverrun.bench.harness import PARTITIONS, Bench
from riverrun.bench.latency import Reader
from riverrun.errors import JobError
from riverrun.kafka.browse import Browser
from riverrun.runtime.submit import COMMAND

PROGRAM = """
import riverrun as rr

app = rr.App("{name}")
views = app.stream("{input}", schema="user string, page string, ms double, at bigint")
read = views.select("user", "page", ms="ms * {factor}")
read.to("{output}")
read.group_by("user", name="totals").agg(n=rr.count(), total=rr.sum("ms")).to("{output}-totals")
"""
KEYS = 10_000
PER_SECOND = 1_000
STEADY = 20.0
"""Seconds without a switch, before the first one and between two."""
LONGEST = 1_200
"""Seconds of load, if nobody ends it."""
PATIENCE = 180.0


class Listener(threading.Thread):
    """Notes when each public row was there."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        super().__init__(daemon=True)
        self.client, self.topic = client, topic
        self.heard: list[float] = []
        self.pages: Counter[str] = Counter()
        self.ended = threading.Event()

    def run(self) -> None:
        with Reader(self.client, self.topic) as reader:
            while not self.ended.is_set():
                for at, row in reader.rows(quiet=0.1):
                    self.heard.append(at / 1000)
                    self.pages[row["page"]] += 1

    def silence(self, begun: float, ended: float) -> float:
        """The longest time without a row, in seconds."""
        heard = [begun, *(at for at in self.heard if begun < at < ended), ended]
        return float(np.diff(heard).max())

    def waits_for(self, rows: int) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while len(self.heard) < rows:
            if time.monotonic() > give_up_at:
                raise JobError("rows are missing", got=f"{len(self.heard)} of {rows}")
            time.sleep(0.1)


class Promotion:
    def __init__(self, bench: Bench, *, rounds: int) -> None:
        self.bench, self.rounds = bench, rounds
        self.name = f"{bench.run}-promoted"
        self.input, self.output = bench.topic("views"), bench.topic("read")
        self.listener = Listener(bench.client, self.output)

    def measure(self) -> None:
        figures, listener = self.bench.report.figures, self.listener
        with self._load() as load, self._version("current", 1), self._version("v2", 2):
            listener.start()
            listener.waits_for(PER_SECOND)
            self._runs("v2")
            begun = time.time()
            time.sleep(STEADY)
            figures["promotion: longest silence without one, s"] = self._silence(begun)
            told = [self._promoted(to) for _ in range(self.rounds) for to in ("v2", "current")]
            load.kill()
            load.wait()
            sent = self._sent()
            listener.waits_for(sent)
            time.sleep(2)  # what comes twice comes now
        listener.ended.set()
        listener.join()
        self._note(told, sent)

    def _note(self, told: list[dict[str, float]], sent: int) -> None:
        report = self.bench.report
        for name in ("command", "switch", "silence"):
            median = float(np.median([each[name] for each in told]))
            report.figures[f"promotion: {name}, s (median of {len(told)})"] = round(median, 2)
        report.figures["promotion: rows"] = sent
        wrong = sum(self.listener.pages.values()) - sent, sent - len(self.listener.pages)
        report.at_most("promotion: rows lost or doubled", 0, sum(abs(each) for each in wrong))

    def _promoted(self, version: str) -> dict[str, float]:
        begun = time.time()
        found = self._riverrun("promote", self.name, version, "--json")
        ended = time.time()
        time.sleep(STEADY)
        silence = self.listener.silence(begun, ended + STEADY)
        return {"command": ended - begun, "switch": found["seconds"], "silence": silence}

    def _silence(self, begun: float) -> float:
        return round(self.listener.silence(begun, time.time()), 2)

    def _sent(self) -> int:
        with Browser(self.bench.client, self.input) as browser:
            return sum(browser.latest.values())

    def _runs(self, version: str) -> None:
        """Waits until it tells of its batches."""
        give_up_at = time.monotonic() + PATIENCE
        log = self.bench.folder / f"{version}.log"
        while '"events"' not in (told := log.read_text()):
            if time.monotonic() > give_up_at:
                raise JobError("a version does not begin", where=version, got=told[-2000:])
            time.sleep(0.5)

    def _riverrun(self, *arguments: str) -> Any:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            env=self._environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise JobError("riverrun failed", where=" ".join(arguments), got=ended.stderr[-2000:])
        return json.loads(ended.stdout)

    def _environment(self) -> dict[str, str]:
        settings = self.bench.settings
        brokers = self.bench.client["bootstrap.servers"]
        return {**os.environ, "RIVERRUN_HOME": str(settings.home), "RIVERRUN_BROKERS": brokers}

    @contextmanager
    def _version(self, version: str, factor: int) -> Iterator[None]:
        self.bench.console.print(f"running {version} of {self.name}", style="dim")
        file = self.bench.folder / f"{version}.py"
        file.write_text(PROGRAM.format(name=self.name, input=self.input, output=self.output,
                                       factor=factor))  # fmt: skip
        as_version = () if version == "current" else ("--as", version)
        command = [*COMMAND, "deploy" if as_version else "run", str(file), *as_version, "--json"]
        with file.with_suffix(".log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment())
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    @contextmanager
    def _load(self) -> Iterator[subprocess.Popen[bytes]]:
        plan = {"client": self.bench.client, "topic": self.input, "per_second": PER_SECOND,
                "keys": KEYS, "seconds": LONGEST, "partitions": PARTITIONS,
                "noted": str(Path(self.bench.folder) / "sent.npz")}  # fmt: skip
        module = "riverrun.bench.latency_load"
        load = subprocess.Popen([sys.executable, "-m", module, json.dumps(plan)])
        try:
            yield load
        finally:
            load.kill()
            load.wait()
