"""Stopping a running program: what runs is finished and committed, and read once only."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from riverrun.kafka import admin
from running import Run, produce, table
from test_run import program, views

pytestmark = [pytest.mark.broker, pytest.mark.spark]

EVENTS = 30_000


def last(query: Path, log: str) -> int:
    return max(int(file.name) for file in (query / log).iterdir() if file.name.isdigit())


def test_a_batch_is_finished_before_a_program_stops_and_nothing_is_read_twice(
    broker, broker_settings, tmp_path, riverrun
):
    admin.create_topic(broker, "drained-views", partitions=2)
    produce(broker, "drained-views", views(EVENTS), partitions=2)
    home = broker_settings.home
    file = program(tmp_path, "drained", "drained-views", "drained-out")
    query = home / "checkpoints" / "drained" / "query"
    read = 0
    for number, way in enumerate((signal.SIGINT, "stop")):
        with Run(file, "--max-events", "4000", home=home) as run:
            run.until(4000)
            shown = next(a for a in json.loads(riverrun("ps", "--json").out) if a["pid"])
            assert (shown["name"], shown["pid"]) == ("drained", run.process.pid)
            if way == "stop":
                assert riverrun("stop", "drained").out == "drained is stopped\n"
            else:
                run.process.send_signal(way)
            assert run.end() == 0, run.error()
            read += run.statuses()[-1]["events"]
        assert last(query, "offsets") == last(query, "commits"), number
        assert read < EVENTS
    with Run(file, "--once", home=home) as run:
        assert run.end() == 0, run.error()
        assert read + run.statuses()[-1]["events"] == EVENTS
    assert sum(row["views"] for row in table(broker, "drained-out").values()) == EVENTS
    assert riverrun("stop", "drained").out == "drained was not running\n"
    shown = next(a for a in json.loads(riverrun("ps", "--json").out) if a["name"] == "drained")
    assert shown["state"] == "stopped"


def test_an_application_that_nobody_knows_cannot_be_stopped(broker, riverrun):
    outcome = riverrun("stop", "unheard-of")
    assert outcome.code == 2
    assert outcome.err.startswith("error: nothing is known of the application 'unheard-of' [RR103]")
