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
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from riverrun.kafka.browse import Browser

COMMAND = [sys.executable, "-c", "from riverrun.cli import entry; entry()"]
PATIENCE = 150.0


class Run:
    """`riverrun run PROGRAM …`, or another command that runs one, with its status lines."""

    def __init__(self, program: Path, *options: str, home: Path, command: str = "run") -> None:
        self.out = program.with_suffix(f".{time.time_ns()}.out")
        with self.out.open("w") as out, self.out.with_suffix(".err").open("w") as err:
            self.process = subprocess.Popen(
                [*COMMAND, command, str(program), "--json", *options],
                stdout=out,
                stderr=err,
                env={**os.environ, "RIVERRUN_HOME": str(home)},
                start_new_session=True,  # a test may signal all of its group
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

    def end(self, patience: float = PATIENCE) -> int:
        return self.process.wait(patience)

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


def kill_between_write_and_commit(run: Run, client: dict[str, str], app: str, home: Path) -> bool:
    """Ends a run as soon as a part of a batch has taken effect, and before Spark notes the batch.

    False if it was too late: Spark was quicker.
    """
    settings = {**client, "group.id": "between", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": "5", "auto.offset.reset": "earliest"})
    topic, seen = f"{app}.progress", -1
    give_up = time.monotonic() + PATIENCE
    with suppress(KafkaException):
        while topic not in consumer.list_topics(timeout=10).topics:
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.1)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    try:
        while time.monotonic() < give_up and run.process.poll() is None:
            message = consumer.poll(0.05)
            if message is not None and not message.error() and message.key() != b"run":
                seen = max(seen, json.loads(message.value())["batch"])
            if seen > last_commit(home, app):
                run.kill()
                return seen > last_commit(home, app)
    finally:
        consumer.close()
    raise AssertionError(f"nothing is written: {run.error()}")


def last_commit(home: Path, app: str) -> int:
    """The last batch that Spark has committed; -1 before the first."""
    folder = home / "checkpoints" / app / "query" / "commits"
    if not folder.exists():
        return -1
    return max((int(f.name) for f in folder.iterdir() if f.name.isdigit()), default=-1)


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
