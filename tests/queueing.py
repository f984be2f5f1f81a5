"""Workers of queues in processes of their own, to be killed, frozen and stopped; and their jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.queues.queue import Queue

PATIENCE = 60.0


def fresh(broker: Mapping[str, str], name: str, partitions: int = 1) -> str:
    """A new topic whose name begins so."""
    topic = f"{name}-{time.time_ns()}"
    admin.create_topic(broker, topic, partitions=partitions)
    return topic


def put(broker: Mapping[str, str], topic: str, values: Iterable[Any], **settings: str) -> None:
    """Jobs in as few batches as can be: that is what share groups have to take apart."""
    producer = Producer({**broker, "linger.ms": "100", **settings})
    for value in values:
        producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value))
        producer.poll(0)
    assert producer.flush(30) == 0


def letters(broker: Mapping[str, str], group: str) -> list[dict[str, Any]]:
    if f"{group}.dead" not in {topic.name for topic in admin.topics(broker)}:
        return []
    with Browser(broker, f"{group}.dead") as browser:
        return [json.loads(m.value() or b"{}") for m in browser.read(browser.earliest)]


def written(folder: Path, text: str) -> Path:
    file = folder / "program.py"
    file.write_text(text)
    return file


def taken(queue: Queue, *, idle: str = "1 second") -> list[Any]:
    """The values that are left, in order, each done."""
    found = []
    for message in queue.messages(idle=idle):
        found.append(message.value)
        assert message.done()
    return found


class Process:
    """A Python program that tells what it does in lines of a file, whole even when it is killed."""

    def __init__(self, program: Path, lines: Path, *arguments: str, brokers: str) -> None:
        self.lines = lines
        lines.touch()
        self.errors = lines.with_suffix(".err")
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(program), str(lines), *arguments],
                env={**os.environ, "RIVERRUN_BROKERS": brokers},
                stderr=errors,
                start_new_session=True,  # Ctrl-C of who runs the tests is not for it
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> list[str]:
        return self.lines.read_text().splitlines()

    def until(self, line: str) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while line not in self.said():
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < give_up_at, f"{self.said()} {self.errors.read_text()}"
            time.sleep(0.02)

    def end(self) -> int:
        return self.process.wait(PATIENCE)
