"""What is to give way does, with its whole session, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import riverrun as rr
from baskets import baskets
from riverrun import config
from riverrun.embedded import priority
from riverrun.errors import ConfigError
from riverrun.runtime.surroundings import nice_of

SAYS = "import os; from riverrun.embedded import priority; priority.tell_session(os.getpid());"
AUTOGROUP = Path("/proc/self/autogroup")


def started(code: str) -> str:
    made = subprocess.run(
        [sys.executable, "-c", SAYS + code], check=True, capture_output=True, text=True,
        start_new_session=True,
    )  # fmt: skip
    return made.stdout.strip()


def test_processes_that_are_started_so_give_way_and_this_one_does_not() -> None:
    before = os.nice(0)
    assert priority.giving_way(5, partial(started, "print(os.nice(0))")) == str(before + 5)
    assert priority.giving_way(0, partial(started, "print(os.nice(0))")) == str(before)
    assert os.nice(0) == before
    other = []
    thread = threading.Thread(target=lambda: other.append(os.nice(0)))
    thread.start()
    thread.join()
    assert other == [before]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="sessions are not grouped here")
def test_the_session_of_what_gives_way_gives_way_as_a_whole() -> None:
    own = AUTOGROUP.read_text()
    told = priority.giving_way(5, partial(started, "print(open('/proc/self/autogroup').read())"))
    assert told.endswith(f"nice {os.nice(0) + 5}")
    assert AUTOGROUP.read_text() == own


@pytest.mark.parametrize("given", ["20", "-1", "high", "1.5"])
def test_a_nice_value_out_of_range_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match="from 0 to 19"):
        config.load(start=tmp_path, environ={"RIVERRUN_NICE": given})


def test_programs_with_views_give_way_unless_they_answer_commands_or_alert_people(
    tmp_path: Path,
) -> None:
    settings = config.load(start=tmp_path, environ={})
    asked = rr.App("looked-up")
    rows = asked.stream("rows", schema="k string")
    rows.group_by("k", name="per_k").agg(n=rr.count()).to(rr.sinks.view("per_k"))
    answering, found = baskets()
    per_type = found.events.group_by("type", name="per_type").agg(n=rr.count())
    per_type.to(rr.sinks.view("per_type"))
    alerting = rr.App("alerting")
    failures = alerting.stream("failures", schema="k string")
    failures.alert(rr.alerts.sse("told"), group_by="k")
    assert nice_of(alerting.program(), settings) == 0
    assert nice_of(asked.program(), settings) == 10
    assert nice_of(answering.program(), settings) == 0
    assert nice_of(answering.program(), replace(settings, nice=5)) == 5
