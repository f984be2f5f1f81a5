"""`riverrun bench commands`: commands through `decide` in Python, and how soon they are answered.

- A backlog of commands over 100,000 aggregates, events and replies written: commands a second.
- 10,000 a second as they come: how far the replies are behind in the end.
- 1,000 a second: from sending a command to having its reply.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from riverrun.bench.harness import PARTITIONS, Bench, Plan, batches_of
from riverrun.bench.load import PRODUCER
from riverrun.bench.report import Report
from riverrun.bench.serve import Steady
from riverrun.commands import Commands
from riverrun.config import Settings

PATIENCE = 300.0


@dataclass(frozen=True)
class Sizes:
    commands: int = 1_000_000
    aggregates: int = 100_000
    per_second: int = 10_000
    seconds: int = 60
    probes: int = 100

    @property
    def smaller(self) -> Sizes:
        return Sizes(100_000, 10_000, 10_000, 15, 30)


@dataclass(frozen=True)
class Running:
    topic: str
    traffic: Steady
    plan: Plan

    @property
    def behind(self) -> int:
        """Commands that were sent, and are not decided and answered yet."""
        decided = sum(int(batch["events"]) for batch in batches_of(self.plan))
        return self.traffic.sent - decided


class CommandsBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=200_000)
        self.sizes = sizes

    def backlog(self) -> None:
        topic = self.topic("backlog")
        producer = Producer({**self.client, **PRODUCER})
        for number in range(self.sizes.commands):
            self._produce(producer, topic, number)
        producer.flush()
        plan = self.plan(topic, "backlog", once=True, called=f"{self.run}-backlog")
        rate = self.steady("backlog", self.finished("commands_ours", plan))
        self.report.at_least("commands decided and answered a second", self.sizes.per_second, rate)

    def _produce(self, producer: Producer, topic: str, number: int) -> None:
        made = self.command(number)
        while True:
            try:
                producer.produce(topic, made, partition=self._partition(number))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def command(self, number: int) -> bytes:
        """Two deposits to one withdrawal, of which some are refused."""
        kind = "Withdraw" if number % 3 == 2 else "Deposit"
        return json.dumps(
            {
                "id": str(number), "aggregate": f"a{number % self.sizes.aggregates}", "type": kind,
                "data": {"cents": number % 97 + 1},
            }
        ).encode()  # fmt: skip

    def _partition(self, number: int) -> int:
        return number % self.sizes.aggregates % PARTITIONS

    def steadily(self) -> None:
        """At the rate that is to be sustained: when the last command is sent, how far behind are
        the replies?"""
        sizes = self.sizes
        with self._running("steady", sizes.per_second) as running:
            time.sleep(sizes.seconds)
            behind = running.behind / sizes.per_second
        self.report.figures["steady: commands/s"] = sizes.per_second
        self.report.at_most("steady: replies behind commands, seconds", 5, behind)

    def answered(self) -> None:
        found = []
        with (
            self._running("answered", 1_000) as running,
            Commands(running.topic, settings=self.settings) as commands,
        ):
            for number in range(self.sizes.probes):
                begun = time.monotonic()
                commands.send(("Deposit", {"cents": 1}), to=f"probe {number}")
                found.append(time.monotonic() - begun)
        p50, p95 = statistics.median(found), statistics.quantiles(found, n=20)[-1]
        self.report.figures["answered: commands/s"] = 1_000
        self.report.at_most("command to reply, p50 in seconds", 1.5, p50)
        self.report.figures["command to reply, p95 in seconds"] = round(p95, 2)

    @contextmanager
    def _running(self, name: str, per_second: int) -> Iterator[Running]:
        """A job that is warm, with so many commands a second."""
        topic = self.topic(name)
        plan = self.plan(topic, name, once=False, called=f"{self.run}-{name}")
        process = self.process("commands_ours", plan)
        try:
            traffic = Steady(self.client, topic, per_second)
            running = Running(topic, traffic, plan)
            with traffic.sending(self.command):
                self.wait_for(process, plan, 5 * per_second)
                give_up_at = time.monotonic() + PATIENCE
                while running.behind > 5 * per_second and time.monotonic() < give_up_at:
                    time.sleep(1)
                yield running
            self.stop(process, plan)
        finally:
            process.kill()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = CommandsBench(settings, sizes, Path(folder))
        run.backlog()
        run.steadily()
        run.answered()
        return run.report
