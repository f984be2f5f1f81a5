"""Stored queries on real Kafka and Spark: told while the job runs, and it is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import runpy
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from doors import served
from riverrun.client import Client, Refusal
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.queries import Queries
from riverrun.testing import Driver
from running import PATIENCE, Run, produce, records

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr

app = rr.App("searched", pages=3)
documents = app.stream(
    "searched-docs", schema="id bigint, body string, price double, at timestamp", time="at",
    lateness="5 seconds", idle="1 hour",
)
documents.search("saved", text="body", language="english", keep="id").to("searched-found")
"""
WORDS = ["river", "lake", "sea", "kafka", "stream", "table", "runs", "running", "天气", "café"]
PARTITIONS, PART = 3, 2_000
NAME = "天气/ann"
START = datetime(2026, 1, 1, tzinfo=UTC)


def documents(part):
    dice = random.Random(part)
    for n in range(part * PART, (part + 1) * PART):
        at = START + timedelta(milliseconds=50 * n - dice.randrange(4000))
        body = " ".join(dice.choices(WORDS, k=8))
        yield {"id": n, "body": body, "price": dice.randrange(100), "at": str(at)}


def closing():
    return [{"id": -1, "body": "", "at": str(START + timedelta(hours=2))}] * PARTITIONS


def test_queries_that_come_while_a_job_runs_and_is_killed_find_what_the_driver_finds(
    broker, broker_settings, riverrun, tmp_path, once
):
    home, file = broker_settings.home, tmp_path / "searched.py"
    file.write_text(PROGRAM)
    admin.create_topic(broker, "searched-docs", partitions=PARTITIONS)
    sent = []

    def send(rows):
        sent.extend(rows := list(rows))
        produce(broker, "searched-docs", rows, partitions=PARTITIONS)

    send(documents(0))
    with Run(file, home=home) as run:
        run.until(PART)
        outcome = riverrun("queries", "add", "searched", 'cafe "run river"', "--name", "a")
        assert "query a, version 1: rows from 2026-01-01T00:01:" in outcome.out, outcome.err
        outcome = riverrun("queries", "add", "searched", "river (", "--name", "wrong")
        assert "where: character 8 of the query" in outcome.out
        assert outcome.code == 2
        outcome = riverrun(
            "queries", "add", "searched", "天气 price:<9", "--name", "b", "--owner", "o"
        )
        assert "query b, version 1" in outcome.out, outcome.err
        assert_told_over_http(broker_settings.override(brokers=broker["bootstrap.servers"]))
        watched = watch(broker_settings, "sea price:>90")
        send(documents(1))
        run.until(2 * PART)
        hits = [json.loads(watched.stdout.readline()) for _ in range(3)]
        assert all("**sea**" in hit["fragment"] for hit in hits)
        watched.wait(PATIENCE)
        outcome = riverrun("queries", "cost", "searched", "--json")
        told = {each["query"]: each for each in json.loads(outcome.out)["queries"]}
        assert told["a"]["candidates"] >= told["a"]["hits"] > 0, outcome.err
        # killed before it has answered, or after: the log has what was asked
        queries = Queries("searched", "saved", brokers=broker["bootstrap.servers"])
        queries.add({"name": "c", "query": "lake -sea"}, timeout=None)
        run.kill()
    assert riverrun("queries", "remove", "searched", "a").out == "query a: not answered yet\n"
    send(documents(2))
    send(closing())
    once(file, "--max-events", "1500")
    listed = json.loads(riverrun("queries", "list", "searched", "--json").out)
    assert sorted(each["name"] for each in listed) == ["b", "c", NAME]
    assert_found(broker, file, sent)


def assert_told_over_http(settings):
    """What the job answers, as it is; what it adds finds documents like all others."""
    with served(settings, "") as door:
        queries = Client(door.url).queries("searched.saved")
        body = {"name": NAME, "query": "kafka -lake", "metadata": {"mail": "ann@example.com"}}
        [known] = queries.add(body, timeout="1 minute")
        assert (known.state, known.version) == ("in effect", 1)
        assert known.effective.startswith("2026-01-01T00:01:")
        assert queries.standing().keys() == {"a", "b", NAME}
        with pytest.raises(Refusal) as refused:
            queries.add({"name": NAME, "query": "river colour:red"}, timeout="1 minute")
        assert refused.value.status == 422
        assert refused.value.fact == "there is no column 'colour'"
        assert refused.value.where == "character 7 of the query"
        assert queries.get(NAME) == known
        queries.add({"name": "short", "query": "sea"}, timeout="1 minute")
        [removed] = queries.remove("short", timeout="1 minute")
        assert removed.state == "removed"


def watch(settings, query):
    """It ends after three hits, and takes its query with it."""
    command = [sys.executable, "-m", "riverrun.cli", "search", "watch", "searched", query]
    started = subprocess.Popen(
        [*command, "--json", "-n", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "RIVERRUN_HOME": str(settings.home)},
    )  # fmt: skip
    said = started.stderr.readline()
    assert said.startswith("watching searched from 2026"), said + started.stderr.read()
    return started


def assert_found(broker, file, sent):
    """What the driver gives with the same records and the same log, in one batch."""
    log = ControlLog(broker, "searched")
    driver = Driver(runpy.run_path(str(file))["app"])
    driver.topics.asked = log.commands(0, log.end())
    driver.send("searched-docs", *sent)
    driver.batch()
    wanted = sorted(json.dumps(line["value"]) for line in driver.outputs["searched-found"])
    give_up = time.monotonic() + PATIENCE
    found = []
    while len(found) < len(wanted) and time.monotonic() < give_up:
        found = sorted(
            json.dumps(json.loads(value)) for _, value in records(broker, "searched-found")
        )
    assert {json.loads(each)["query"] for each in found} == {"a", "b", "c", NAME}
    assert found == wanted
