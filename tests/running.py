"""A program in a process of its own, as `riverrun run` starts it, to watch, stop and kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from riverrun.connectors.browse import Browser

COMMAND = [sys.executable, "-c", "from riverrun.cli import entry; entry()"]
PATIENCE = 150.0


class Run:
    """`riverrun run PROGRAM …`, with its status lines."""

    def __init__(self, program: Path, *options: str, home: Path) -> None:
        self.out = program.with_suffix(f".{time.time_ns()}.out")
        with self.out.open("w") as out, self.out.with_suffix(".err").open("w") as err:
            self.process = subprocess.Popen(
                [*COMMAND, "run", str(program), "--json", *options],
                stdout=out,
                stderr=err,
                env={**os.environ, "RIVERRUN_HOME": str(home)},
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def statuses(self) -> list[dict[str, Any]]:
        lines = self.out.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def error(self) -> str:
        return self.out.with_suffix(".err").read_text()

    def until(self, events: int) -> None:
        """Waits until so many events are committed."""
        give_up = time.monotonic() + PATIENCE
        while not (self.statuses() and self.statuses()[-1]["events"] >= events):
            assert self.process.poll() is None, self.error()
            assert time.monotonic() < give_up, f"{self.statuses()[-1:]} {self.error()}"
            time.sleep(0.1)

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def kill(self) -> None:
        """kill -9 of the process and all that it started."""
        try:
            family = [*psutil.Process(self.process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        self.process.kill()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def produce(client: dict[str, str], topic: str, values: list[Any], *, partitions: int = 1) -> None:
    producer = Producer(client)
    for number, value in enumerate(values):
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        producer.produce(topic, text, partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0


def table(client: dict[str, str], topic: str) -> dict[str, Any]:
    """The latest row per key of a compacted topic."""
    rows: dict[str, Any] = {}
    for key, value in records(client, topic):
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = json.loads(value)
    return rows


def records(client: dict[str, str], topic: str) -> list[tuple[str, str | None]]:
    """Keys and values of all records, partition by partition in order."""
    with Browser(client, topic) as browser:
        messages = sorted(browser.read(browser.earliest), key=lambda m: (m.partition(), m.offset()))
    return [
        ((m.key() or b"").decode(), None if m.value() is None else m.value().decode())
        for m in messages
    ]
