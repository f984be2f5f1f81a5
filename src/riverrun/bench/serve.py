"""`riverrun bench serve`: views over HTTP while a job writes them.

- Look-ups: 500 a second by key, while 5,000 rows a second are written to the same view.
- Visible: an event, from when it is produced until a reader with its token has the row, at 10,000
  events a second.
- Followers: 1,000 streams of changes, open at a time, each of which gets every change.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
from confluent_kafka import Producer

from riverrun.bench.harness import PARTITIONS, Bench, Plan, batches_of
from riverrun.bench.load import PRODUCER
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.errors import JobError
from riverrun.partitions import Partition
from riverrun.views.tokens import Token

COMMAND = "from riverrun.cli import entry; entry()"
WARM = 10.0
"""Seconds of traffic before anything is measured."""
PATIENCE = 180.0


@dataclass(frozen=True)
class Sizes:
    seconds: int = 60
    keys: int = 100_000
    written: int = 5_000
    """Rows a second."""
    lookups: int = 500
    events: int = 10_000
    probes: int = 100
    streams: int = 1_000
    changes: int = 2_000
    """That each follower gets."""

    @property
    def smaller(self) -> Sizes:
        return Sizes(15, 10_000, 5_000, 500, 10_000, 40, 200, 1_000)


class Turns(NamedTuple):
    """How long the loop of the server has run, and has waited for a processor, in seconds."""

    ran: float
    waited: float

    @staticmethod
    def of(pid: int) -> Turns:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return Turns(int(ran) / 1e9, int(waited) / 1e9)

    def since(self, before: Turns) -> Turns:
        return Turns(self.ran - before.ran, self.waited - before.waited)


class Steady:
    """Records at a steady rate, from a thread of its own, until it is left."""

    def __init__(self, client: dict[str, str], topic: str, per_second: int) -> None:
        self.producer = Producer({**client, **PRODUCER, "linger.ms": "5"})
        self.topic, self.per_second = topic, per_second
        self.sent = 0
        self._over = threading.Event()

    @contextmanager
    def sending(self, made: Callable[[int], bytes]) -> Iterator[None]:
        def send() -> None:
            begun = time.monotonic()
            while not self._over.wait(0.02):
                for number in range(self.sent, int((time.monotonic() - begun) * self.per_second)):
                    self.producer.produce(self.topic, made(number), partition=number % PARTITIONS)
                    self.sent = number + 1
                self.producer.poll(0)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self.producer.flush()


class ServeBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=500_000)
        self.sizes = sizes
        self.url, self.server = "", 0

    @contextmanager
    def served(self) -> Iterator[None]:
        environment = {**os.environ, "RIVERRUN_HOME": str(self.settings.home)}
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", "--json"], stdout=subprocess.PIPE,
            env=environment, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            self.url, self.server = json.loads(process.stdout.readline())["url"], process.pid
            yield
        finally:
            process.terminate()
            process.wait(30)

    @contextmanager
    def written(self, kind: str) -> Iterator[tuple[str, str, subprocess.Popen[bytes], Plan]]:
        """A job that runs: its topic and its view."""
        topic, view = self.topic(kind), f"{self.run}_{kind}"
        plan = self.plan(topic, kind, once=False, kind=kind, view=view)
        process = self.process("serve_ours", plan)
        try:
            yield topic, view, process, plan
            self.stop(process, plan)
        finally:
            process.kill()

    def rows(self) -> None:
        """Look-ups, then followers, of a table whose rows change all the time."""
        keys, sizes = self.sizes.keys, self.sizes
        with self.written("rows") as (topic, view, process, plan):
            traffic = Steady(self.client, topic, sizes.written)
            with traffic.sending(lambda number: _row(number, keys)):
                self._through(process, plan, keys)
                before = Turns.of(self.server)
                found = self._load("lookups", view, per_second=sizes.lookups, keys=keys)
                self._lookups(found, Turns.of(self.server).since(before))
                self._followers(view)

    def _lookups(self, found: dict[str, Any], turns: Turns) -> None:
        taken, late = sorted(found["taken"]), sorted(found["late"])
        figures, count = self.report.figures, len(taken)
        figures["look-ups: requests/s"] = round(count / found["seconds"])
        figures["look-ups: rows written/s"] = self.sizes.written
        figures["look-ups: answers without a row"] = found["wrong"]
        figures["look-ups: p50 in ms"] = round(taken[count // 2] * 1000, 2)
        figures["look-ups: sent late, p99 in ms"] = round(late[count * 99 // 100] * 1000, 2)
        figures["look-ups: server's CPU, ms each"] = round(turns.ran / count * 1000, 3)
        figures["look-ups: server waits to run, ms each"] = round(turns.waited / count * 1000, 3)
        self.report.at_most("look-up by key, p99 in ms", 20, taken[count * 99 // 100] * 1000)

    def _followers(self, view: str) -> None:
        now = json.loads(urllib3.request("GET", f"{self.url}/views/{view}?limit=1").data)
        found = self._load(
            "followers", view, streams=self.sizes.streams, changes=self.sizes.changes,
            **{"from": now["revision"]},
        )  # fmt: skip
        self.report.figures["followers: streams"] = self.sizes.streams
        self.report.figures["followers: changes of each"] = self.sizes.changes
        self.report.figures["followers: seconds"] = round(found["seconds"], 1)
        self.report.at_most("followers: ends that they came to", 1, len(found["ends"]))

    def visible(self) -> None:
        sizes = self.sizes
        with self.written("counts") as (topic, view, process, plan):
            traffic = Steady(self.client, topic, sizes.events)
            with traffic.sending(_event):
                self._through(process, plan, sizes.events)
                time.sleep(WARM)
                found = [self._probe(topic, view, number) for number in range(sizes.probes)]
        self.report.figures["visible: events/s"] = sizes.events
        p50, p95 = statistics.median(found), statistics.quantiles(found, n=20)[-1]
        self.report.at_most("produced to visible, p50 in seconds", 1.5, p50)
        self.report.at_most("produced to visible, p95 in seconds", 3, p95)

    def _probe(self, topic: str, view: str, number: int) -> float:
        """Seconds until a reader has what was just produced."""
        producer, where = Producer({**self.client, "linger.ms": "0"}), {}
        begun = time.monotonic()
        user = f"probe-{number}"

        def heard(_: object, message: Any) -> None:
            where[Partition(topic, message.partition())] = message.offset()

        at = int(time.time() * 1000)
        value = json.dumps({"user": user, "page": "/", "ms": 1.0, "at": at}).encode()
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=heard)
        producer.flush()
        token = Token.of(where)
        answer = urllib3.request("GET", f"{self.url}/views/{view}/{user}?token={token}&wait=60")
        if answer.status != 200:
            raise JobError("what was produced is not there", got=answer.data.decode())
        return time.monotonic() - begun

    def _load(self, work: str, view: str, **more: Any) -> dict[str, Any]:
        plan = {"work": work, "url": self.url, "view": view, "seconds": self.sizes.seconds, **more}
        self.console.print(f"{work} of {view}", style="dim")
        made = subprocess.run(
            [sys.executable, "-m", "riverrun.bench.http_load", json.dumps(plan)],
            check=True, capture_output=True, timeout=PATIENCE + self.sizes.seconds,
            start_new_session=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(made.stdout)
        return found

    def _through(self, process: subprocess.Popen[bytes], plan: Plan, events: int) -> None:
        """Waits until the job has read so many, and goes on in step."""
        give_up_at = time.monotonic() + PATIENCE
        while sum(batch["events"] for batch in batches_of(plan)) < events:
            if process.poll() is not None or time.monotonic() > give_up_at:
                raise self.failed(plan)
            time.sleep(0.2)
        time.sleep(WARM)


def _row(number: int, keys: int) -> bytes:
    return b'{"id": %d, "n": %d, "name": "row %d"}' % (number % keys, number, number % keys)


def _event(number: int) -> bytes:
    at = int(time.time() * 1000)
    return b'{"user": "user-%d", "page": "/", "ms": 1.5, "at": %d}' % (number * 7919 % 1000, at)


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = ServeBench(settings, sizes, Path(folder))
        with run.served():
            run.rows()
            run.visible()
        return run.report
