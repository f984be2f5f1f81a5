"""What tests of the server's topics share: a home with programs, its server, records read back."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import urllib3
import uvicorn

import riverrun as rr
from riverrun.compiler.shape import shape
from riverrun.config import Settings
from riverrun.config_tables import Intake, Serving
from riverrun.embedded import kafka, ports
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.runtime import checkpoint
from riverrun.server.app import build
from riverrun.server.http import Http
from riverrun.server.limits import Limits
from riverrun.server.security import Tokens
from riverrun.sinks.kafka.compacted import settled

JSON = "application/json"
LINES = "application/x-ndjson"
VIEW = {"page": "/", "user": "ann", "ms": 1.5, "at": "2026-01-01T12:00:00Z"}
SCHEMA = "page string, user string, ms double, n bigint, at timestamp"


def views_app(topic: str, **more: Any) -> rr.App:
    app = rr.App(topic)
    options = {"schema": SCHEMA, "key": "user", "time": "at", **more}
    app.stream(topic, **options).to(f"{topic}.out")
    return app


def note(settings: Settings, app: rr.App) -> None:
    """As a run of the program leaves it."""
    folder = settings.checkpoint_of(app.name)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.note(folder, shape(app.program()))


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def errors(self) -> list[tuple[int, str | None, str]]:
        found = self.body.get("errors") or self.body["error"]["errors"]
        return [(each["record"], each["column"], each["cause"]) for each in found]


@dataclass(frozen=True)
class Door:
    """A server, and a topic of it."""

    url: str
    topic: str
    client: Mapping[str, str]
    settings: Settings

    def post(self, body: object, kind: str = JSON, query: str = "", **headers: str) -> Reply:
        content = body if isinstance(body, bytes | str) else json.dumps(body)
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        answer = urllib3.request(
            "POST", f"{self.url}/topics/{self.topic}{query}", body=content, retries=False,
            timeout=60, headers={"content-type": kind, **named},
        )  # fmt: skip
        return Reply(answer.status, json.loads(answer.data), dict(answer.headers))

    def get(self, path: str) -> Reply:
        answer = urllib3.request("GET", f"{self.url}{path}", retries=False, timeout=60)
        return Reply(answer.status, json.loads(answer.data))

    def records(self) -> list[dict[str, Any]]:
        return records(self.client, self.topic)


def records(client: Mapping[str, str], topic: str) -> list[dict[str, Any]]:
    """All that is committed: value, key, timestamp, headers, place."""
    topics = KafkaTopics(client)
    count = topics.facts([topic])[topic].partitions
    ranges = settled(topics, [Partition(topic, number) for number in range(count)])
    found = []
    for read in RangeReader(client).read([ranges], frozenset([topic])):
        for partition, rows in read.items():
            found += [_record(partition, row) for row in rows.to_pylist()]
    return found


def _record(partition: Partition, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "value": json.loads(row["__value"]), "key": row["__key"], "at": row["__timestamp"],
        "headers": {each["name"]: each["value"].decode() for each in row["__headers"] or ()},
        "place": (partition, row["__offset"]),
    }  # fmt: skip


def home(folder: Path, client: Mapping[str, str], topic: str, **intake: Any) -> Settings:
    """Settings of a home of its own, whose server is called like the topic."""
    serving = Serving(name=topic, topics={topic: Intake(**intake)})
    brokers = client["bootstrap.servers"]
    return replace(Settings(home=folder, cache=folder), brokers=brokers, serve=serving)


@contextmanager
def served(settings: Settings, topic: str, **limits: Any) -> Iterator[Door]:
    port = ports.any_free()
    config = uvicorn.Config(
        build(settings, limits=Limits(**limits)), port=port, log_config=None, lifespan="off",
        http=Http, loop="uvloop", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Door(f"http://127.0.0.1:{port}", topic, settings.client(), settings)
    finally:
        server.should_exit = True
        thread.join()


def new_topic(client: Mapping[str, str], **options: Any) -> str:
    name = f"t{time.time_ns()}"
    admin.create_topic(client, name, **{"partitions": 3, **options})
    return name


@pytest.fixture(scope="module")
def shared(broker_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server for tests that leave it as it was."""
    client = kafka.client(broker_settings)
    topic = new_topic(client)
    with served(home(tmp_path_factory.mktemp("door"), client, topic), topic) as found:
        yield found


@pytest.fixture
def door(shared: Door) -> Iterator[Door]:
    """A topic of its own, which an application of the same name reads."""
    topic = new_topic(shared.client)
    note(shared.settings, views_app(topic))
    found = replace(shared, topic=topic)
    await_status(lambda: found.get(f"/topics/{topic}"), 200)
    yield found
    shutil.rmtree(shared.settings.checkpoint_of(topic))
    Tokens(shared.settings).file.unlink(missing_ok=True)


def await_status(ask: Callable[[], Reply], status: int) -> Reply:
    deadline = time.monotonic() + 30
    while (reply := ask()).status != status:
        assert time.monotonic() < deadline, reply
        time.sleep(0.1)
    return reply
