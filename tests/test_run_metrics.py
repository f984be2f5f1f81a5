"""A program on real Kafka and real Spark, watched: what metrics, log and traces say is so."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
import urllib3

from otlp import attributes, collecting, seconds
from riverrun.kafka import admin
from riverrun.server import metrics as server
from riverrun.server.security import Guard, Tokens
from running import PATIENCE, Run, produce, records
from serving import served
from test_metrics import read

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("metered", pages=4)
views = app.stream("metered-views", schema="page string, at timestamp_ms", time="at",
                   lateness="1 minute")
views.group_by("page", name="pages").window(rr.tumbling("1 hour"), emit="changes").agg(
    n=rr.count()).to("metered-out")
"""
PAGES, EVENTS, BAD = 200, 4_000, 3


class Watched:
    """What the server tells of the application."""

    def __init__(self, address: str) -> None:
        self.address = address

    def now(self) -> dict[tuple[str, ...], float]:
        answer = urllib3.request("GET", f"{self.address}/metrics", timeout=10)
        return read(answer.data.decode())

    def lag(self) -> dict[str, float]:
        """By partition."""
        name = "kafka_consumergroup_lag"
        return {key[2]: value for key, value in self.now().items() if key[0] == name}

    def until_lag(self, total: int) -> dict[tuple[str, ...], float]:
        give_up = time.monotonic() + PATIENCE
        while sum(self.lag().values()) != total or not self.lag():
            assert time.monotonic() < give_up, self.lag()
            time.sleep(0.2)
        return self.now()

    def reasons(self) -> list[dict[str, str]]:
        """Why not all of the home is ready: other tests have left applications in it."""
        answer = urllib3.request("GET", f"{self.address}/readyz", timeout=10)
        assert answer.status == (503 if answer.json()["reasons"] else 200)
        return answer.json()["reasons"]


def views(count: int) -> list[object]:
    now = int(time.time() * 1000)
    return [{"page": f"/{n % PAGES}", "at": now} for n in range(count)]


def test_what_is_told_of_a_running_application_is_what_the_log_holds(
    broker, broker_settings, tmp_path, riverrun, monkeypatch
):
    admin.create_topic(broker, "metered-views", partitions=2)
    produce(broker, "metered-views", [*views(EVENTS), *["nonsense"] * BAD], partitions=2)
    program = tmp_path / "metered.py"
    program.write_text(PROGRAM)
    home = broker_settings.home
    with (
        collecting() as collector,
        served(
            server.routes(broker_settings, Guard(Tokens(broker_settings), local=True))
        ) as address,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        watched = Watched(address)
        began = time.time()
        with Run(program, "--max-events", "1500", "--log", "json", home=home) as run:
            run.until(EVENTS + BAD)
            found = watched.until_lag(0)
            assert_counts(found, broker)
            assert not any("metered" in each["what"] for each in watched.reasons())
            assert riverrun("pause", "metered").code == 0
            produce(broker, "metered-views", views(90), partitions=2)
            found = watched.until_lag(90)
            assert found["riverrun_topic_paused", "metered", "metered-views"] == 1
            assert watched.lag() == {"0": 45, "1": 45}
            assert run.stop() == 0, run.error()
        found = watched.now()
        assert found["riverrun_application_state", "metered", "stopped"] == 1
        assert_log(run.error(), found)
        assert_times(found, home, time.time() - began)
    assert_spans(collector, found)


def assert_counts(found: dict[tuple[str, ...], float], broker: dict[str, str]) -> None:
    rows = records(broker, "metered-out")
    assert found["riverrun_application_state", "metered", "running"] == 1
    assert found["riverrun_events_total", "metered"] == EVENTS + BAD
    assert found["riverrun_step_rows_total", "metered", "pages"] == EVENTS
    assert found["riverrun_dead_letters_total", "metered"] == len(records(broker, "metered.dead"))
    assert found["riverrun_failures_total", "metered", "the value is not JSON", "decode"] == BAD
    assert found["riverrun_written_rows_total", "metered", "metered-out"] == len(rows)
    assert len({key for key, _ in rows}) == PAGES
    assert PAGES <= found["riverrun_state_rows", "metered", "pages"] <= len(rows)
    assert found["riverrun_state_bytes", "metered", "pages"] > 8 * PAGES
    committed = admin.group_offsets(broker, "metered")
    for (topic, partition), offset in committed.items():
        key = ("kafka_consumergroup_current_offset", "metered", str(partition), topic)
        assert found[key] == offset
    assert sum(committed.values()) == EVENTS + BAD
    clock = found["riverrun_clock_timestamp_seconds", "metered", "pages"]
    assert time.time() - 60 - PATIENCE < clock < time.time()
    latency = found["riverrun_e2e_latency_seconds", "metered", "0", "metered-views"]
    assert 0 < latency < PATIENCE


def assert_log(text: str, found: dict[tuple[str, ...], float]) -> None:
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["application"] for line in lines} == {"metered"}
    assert {line["level"] for line in lines} == {"info"}, lines
    batches = [line for line in lines if line["event"] == "batch"]
    assert sum(each["events"] for each in batches) == found["riverrun_events_total", "metered"]
    assert sum(each["dead"] for each in batches) == BAD
    assert lines[-1]["event"] == "stopped"


def assert_times(found: dict[tuple[str, ...], float], home: Path, lasted: float) -> None:
    folder = home / "checkpoints" / "metered" / "query" / "commits"
    committed = [file for file in folder.iterdir() if file.name.isdigit()]
    name = "riverrun_batch_duration_seconds"
    assert found[f"{name}_count", "metered", "whole"] == len(committed)
    assert found["riverrun_batch", "metered"] == len(committed) - 1
    mine = (f"{name}_sum", "metered")  # others have run in the same home
    parts = {key[2]: value for key, value in found.items() if key[:2] == mine}
    whole = parts.pop("whole")
    assert parts["running"] > 0.5 * sum(parts.values())
    assert sum(parts.values()) <= whole + 0.01 < lasted


def assert_spans(collector, found: dict[tuple[str, ...], float]) -> None:
    batches = collector.batches()
    name = "riverrun_batch_duration_seconds"
    assert [attributes(each)["riverrun.batch"] for each in batches] == list(range(len(batches)))
    assert len(batches) == found[f"{name}_count", "metered", "whole"]
    assert sum(attributes(each)["riverrun.events"] for each in batches) == EVENTS + BAD
    assert sum(map(seconds, batches)) == pytest.approx(found[f"{name}_sum", "metered", "whole"])
    running = [
        part for each in batches for part in collector.inside(each) if part.name == "running"
    ]
    told = found[f"{name}_sum", "metered", "running"]
    assert sum(map(seconds, running)) == pytest.approx(told, abs=0.001 * len(batches))
    for earlier, later in pairwise(batches):
        assert earlier.end_time_unix_nano <= later.start_time_unix_nano + 1_000_000
