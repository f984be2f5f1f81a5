"""Metrics of a home: what runs have noted, as Prometheus reads it, and whether all is well."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

import riverrun as rr
from riverrun.config import Settings
from riverrun.delivery.status import last_status, note_status
from riverrun.kafka.lag import LAG
from riverrun.kernels.messages import Status, Times
from riverrun.runtime import checkpoint, runs
from riverrun.runtime.measures import TIMES, Stopwatch, noted
from riverrun.runtime.metric_names import METRICS
from riverrun.runtime.metrics import registry, samples
from riverrun.server import metrics as server
from riverrun.server.security import Guard, Tokens
from riverrun.spark.progress import PARTS
from riverrun.testing import Driver
from serving import served

PAGE = Path(__file__).parents[1] / "docs/metrics.md"
NOON = 1_767_268_800_000_000
COUNTED = Status(
    events=100, dead=2, dropped=1, causes={"decode: the value is not JSON": 2, "app.py:7: bad": 1},
    rows={"pages": 90}, late={"pages": 3}, written={"out": 40}, tick=NOON + 7_000_000,
    clocks={"pages": NOON}, highs={"views/0": NOON}, state={"pages": [12, 3_400]},
    waiting={"pages": 5},
)  # fmt: skip


@contextmanager
def running(settings: Settings, name: str, *, fails: bool = False):
    """As seen from other processes, it runs; its status folder."""
    folder, status = settings.checkpoint_of(name), settings.run_of(name) / "status"
    status.mkdir(parents=True)
    with (
        checkpoint.held(folder, name),
        runs.noted(folder, master="local[2]", log=status / "log") as run,
    ):
        run.note(started_at=1000.5)
        yield status
        if fails:
            raise ValueError("it\nfailed")


def read(text: str) -> dict[tuple[str, ...], float]:
    """Values by the name of the metric and those of its labels."""
    found = [sample for family in read_text(text) for sample in family.samples]
    return {(each.name, *each.labels.values()): each.value for each in found}


def scraped(settings: Settings) -> dict[tuple[str, ...], float]:
    return read(generate_latest(registry(settings)).decode())


def lag_note(committed: int | None, end: int) -> str:
    facts = {"committed": committed, "read": end, "end": end, "rate_in": 2.5, "rate_out": None}
    return json.dumps({"at": 1234.5, "partitions": {"views/3": facts}})


def test_what_a_running_application_has_noted_is_told(settings):
    with running(settings, "shop") as status:
        note_status(status, {"pages": 0.01}, (6, COUNTED, []))
        note_status(status, {"pages": 0.01}, (7, COUNTED, []))
        watch = Stopwatch(lambda after: [batch(6), batch(7)], status / TIMES, lambda *_: None)
        watch.look(last_status(status))
        (status / LAG).write_text(lag_note(committed=60, end=100))
        found = scraped(settings)
    not_here = {"unreadable", "paused", "out_rate"}
    names = {name.removesuffix("_sum") for name, *_ in found}
    assert {
        name
        for name in METRICS.keys() - names
        if name.split("_", 2)[2] not in not_here and "_server_" not in name
    } == set()
    told = {
        ("riverrun_application_state", "shop", "running"): 1,
        ("riverrun_application_state", "shop", "died"): 0,
        ("riverrun_application_started_timestamp_seconds", "shop"): 1000.5,
        ("riverrun_batch", "shop"): 7,
        ("riverrun_batch_events", "shop"): 100,
        ("riverrun_events_total", "shop"): 200,
        ("riverrun_dead_letters_total", "shop"): 4,
        ("riverrun_dropped_rows_total", "shop"): 2,
        ("riverrun_step_rows_total", "shop", "pages"): 180,
        ("riverrun_late_rows_total", "shop", "pages"): 6,
        ("riverrun_late_alert", "shop", "pages"): 1,
        ("riverrun_written_rows_total", "shop", "out"): 80,
        ("riverrun_failures_total", "shop", "the value is not JSON", "decode"): 4,
        ("riverrun_failures_total", "shop", "bad", "app.py:7"): 2,
        ("riverrun_clock_timestamp_seconds", "shop", "pages"): NOON / 1e6,
        ("riverrun_clock_lag_seconds", "shop", "pages"): 7,
        ("riverrun_state_rows", "shop", "pages"): 12,
        ("riverrun_state_bytes", "shop", "pages"): 3400,
        ("riverrun_waiting_rows", "shop", "pages"): 5,
        ("riverrun_process_rate", "shop"): 50,
        ("riverrun_batch_last_duration_seconds", "shop", "running"): 1.5,
        ("riverrun_batch_last_duration_seconds", "shop", "whole"): 2,
        ("riverrun_batch_duration_seconds_sum", "shop", "running"): 3,
        ("riverrun_batch_duration_seconds_count", "shop", "running"): 2,
        ("riverrun_lag_noted_timestamp_seconds", "shop"): 1234.5,
        ("kafka_consumergroup_current_offset", "shop", "3", "views"): 60,
        ("kafka_consumergroup_lag", "shop", "3", "views"): 40,
        ("riverrun_partition_in_rate", "shop", "3", "views"): 2.5,
    }
    assert {key: found.get(key) for key in told} == told
    committed = found["riverrun_batch_committed_timestamp_seconds", "shop"]
    assert abs(committed - time.time()) < 60
    latency = found["riverrun_e2e_latency_seconds", "shop", "0", "views"]
    assert latency == pytest.approx(committed - NOON / 1e6)


def batch(number: int) -> Times:
    return Times(number, 1000.0, 2.0, {"planning": 0.25, "running": 1.5})


def test_what_holds_only_while_it_runs_is_told_only_while_it_runs(settings):
    with running(settings, "shop") as status:
        note_status(status, {}, (7, COUNTED, []))
        Stopwatch(lambda _: [batch(7)], status / TIMES, lambda *_: None).look(last_status(status))
        (status / LAG).write_text(lag_note(committed=60, end=100))
        whole = {each.name for each in samples(settings)}
    left = {each.name for each in samples(settings)}
    assert whole - left == {
        "kafka_consumergroup_current_offset", "kafka_consumergroup_lag",
        "riverrun_lag_noted_timestamp_seconds", "riverrun_partition_in_rate",
        "riverrun_e2e_latency_seconds", "riverrun_process_rate",
        "riverrun_clock_lag_seconds",
    }  # fmt: skip
    assert scraped(settings)["riverrun_application_state", "shop", "stopped"] == 1


def test_a_home_in_which_nothing_has_run_tells_its_version(settings, riverrun):
    assert [name for name, *_ in scraped(settings)] == ["riverrun_info"]
    [told] = json.loads(riverrun("metrics", "--json").out)
    assert (told["name"], list(told["labels"]), told["value"]) == ("riverrun_info", ["version"], 1)


def test_an_application_that_cannot_be_read_hides_no_other(settings):
    for name in ("fine", "torn"):
        with running(settings, name) as status:
            note_status(status, {}, (7, COUNTED, []))
    (status / "status.json").write_text('{"batch": 7, "ev')
    found = scraped(settings)
    assert [key for key in found if "torn" in key] == [("riverrun_application_unreadable", "torn")]
    assert found["riverrun_events_total", "fine"] == 100


def test_a_partition_that_nothing_was_read_of_has_no_lag_yet(settings):
    with running(settings, "shop") as status:
        (status / LAG).write_text(lag_note(committed=None, end=100))
        assert not any(name == "kafka_consumergroup_lag" for name, *_ in scraped(settings))


def test_names_with_odd_signs_are_read_back_as_they_are(settings):
    odd = 'a "step"\nwith \\ signs'
    with running(settings, "shop") as status:
        note_status(status, {}, (7, Status(rows={odd: 5}), []))
    assert scraped(settings)["riverrun_step_rows_total", "shop", odd] == 5


def test_a_batch_is_measured_once_however_late_spark_tells_of_it(tmp_path):
    told: list[Times] = []
    heard = []
    watch = Stopwatch(
        lambda after: [each for each in told if each.batch > after],
        tmp_path / TIMES,
        lambda times, counts: heard.append((times.batch, counts["events"])),
    )
    for number in range(3):
        note_status(tmp_path, {}, (number, Status(events=number), []))
        watch.look(last_status(tmp_path))
        assert heard == []
    told += [batch(0), batch(1), batch(2), batch(3)]  # the last is not committed here yet
    watch.look(last_status(tmp_path))
    watch.look(last_status(tmp_path))
    assert heard == [(0, 0), (1, 1), (2, 2)]
    found = noted(tmp_path)
    assert found is not None
    assert (found["batches"], found["seconds"]["whole"]) == (3, 6.0)
    note_status(tmp_path, {}, (3, Status(), []))
    watch.look(last_status(tmp_path))
    found = noted(tmp_path)
    assert found is not None
    assert (found["batch"], found["rate"], found["events"]) == (3, 1.0, 0)  # of one that read


def test_the_size_of_state_is_that_of_the_rows_that_a_step_keeps():
    app = rr.App("sizes", pages=4)
    stream = app.stream("t", schema="at timestamp, device string", time="at", lateness="1 minute")
    per_device = stream.group_by("device", name="devices").window(rr.tumbling("5 minutes"))
    per_device.agg(n=rr.count()).to("out")
    driver = Driver(app)
    rows = "\n".join(f"12:0{n % 4} | d{n % 50}" for n in range(200))
    driver.run(t=f"at | device\n{rows}")
    count, size = driver.status.state["devices"]
    assert count == 50
    assert size > 50 * 8
    driver.run(t="at | device\n12:03 | d0")
    assert driver.status.state["devices"][0] in (50, 51)  # the row that is replaced may be there
    driver.restart()
    driver.run(t="at | device\n13:00 | d0\n-----\n13:01 | d0")
    assert driver.status.state["devices"][0] in (1, 2)


def test_the_page_lists_every_metric_with_its_labels():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    listed = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in rows
    }
    assert listed == {
        name: (known.kind, known.labels, known.help) for name, known in METRICS.items()
    }


def test_rules_of_the_page_ask_for_metrics_that_there_are():
    [rules] = re.findall(r"^```yaml riverrun-rules.yml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    names = set(re.findall(r"\b(?:riverrun|kafka)_\w+", rules))
    assert names
    assert names <= METRICS.keys()


def test_a_look_needs_no_spark():
    code = "import sys, riverrun.server.metrics; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_page_lists_every_part_of_a_batch_and_what_spark_calls_it():
    rows = re.findall(r"^\| `(\w+)` \| (`\w+`.*?) \|", PAGE.read_text(), re.MULTILINE)
    listed = {part: tuple(re.findall(r"`(\w+)`", names)) for part, names in rows}
    assert {part: listed[part] for part in PARTS} == PARTS
    assert listed["whole"] == ("triggerExecution",)


def ask(address: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return urllib3.request("GET", address, headers=headers, retries=False, timeout=20)


def test_the_server_gives_prometheus_the_form_that_it_asks_for(settings):
    with (
        running(settings, "shop") as status,
        served(server.routes(settings, Guard(Tokens(settings), local=True))) as address,
    ):
        note_status(status, {}, (7, COUNTED, []))
        plain = ask(f"{address}/metrics")
        newer = ask(f"{address}/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert read(plain.data.decode())["riverrun_events_total", "shop"] == 100
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    families = {each.name: each for each in read_open_metrics(newer.data.decode())}
    assert families["riverrun_events"].samples[0].value == 100


def test_the_server_is_healthy_though_nothing_else_is_ready(settings):
    with pytest.raises(ValueError, match="failed"), running(settings, "broken", fails=True):
        pass
    (settings.checkpoint_of("dead")).mkdir()
    (settings.checkpoint_of("dead") / "lock").touch()
    runs.Run(settings.checkpoint_of("dead"), pid=1).begin()
    with running(settings, "ended"):
        pass
    with served(server.routes(settings, Guard(Tokens(settings), local=True))) as address:
        healthy, ready = ask(f"{address}/healthz"), ask(f"{address}/readyz")
    assert (healthy.status, healthy.json()) == (200, {"healthy": True})
    assert (ready.status, ready.json()) == (503, {"ready": False, "reasons": [
        {"what": "kafka", "why": "no broker is running"},
        {"what": "application broken", "why": "failed: it"},
        {"what": "application dead", "why": "died"},
    ]})  # fmt: skip


@pytest.mark.broker
def test_all_is_ready_while_a_broker_answers_and_applications_run(settings, broker):
    own = settings.override(brokers=broker["bootstrap.servers"])
    with (
        running(own, "shop"),
        served(server.routes(own, Guard(Tokens(own), local=True))) as address,
    ):
        ready = ask(f"{address}/readyz")
    assert (ready.status, ready.json()) == (200, {"ready": True, "reasons": []})


def test_a_broker_that_does_not_answer_is_asked_once_for_all_who_wait(settings, monkeypatch):
    asked = []
    away = settings.override(brokers="127.0.0.1:9")
    reasons = server.reasons
    monkeypatch.setattr(server, "reasons", lambda given: (asked.append(1), reasons(given))[1])
    with served(server.routes(away, Guard(Tokens(away), local=True))) as address:
        first = ask(f"{address}/readyz")
        began = time.monotonic()
        ask(f"{address}/healthz")
        assert ask(f"{address}/readyz").json() == first.json()
        assert time.monotonic() - began < 1
    assert "no Kafka broker answers" in first.json()["reasons"][0]["why"]
    assert len(asked) == 1
