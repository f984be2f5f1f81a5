"""`riverrun replay`: a program over a part of history, into topics of its own."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import baskets
import riverrun as rr
from riverrun.compiler.scratch import scratch_outputs
from riverrun.durations import milliseconds_of
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.runtime.spans import Asked
from riverrun.sinks.kafka.sink import Topic
from riverrun.testing import Driver
from running import COMMAND, Run, records, table

MINUTE = 60_000
START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PROGRAM = """
import riverrun as rr
app = rr.App("{name}", pages=3)
users = app.table("{name}-users", schema="user bigint, country string", key="user")
clicks = app.stream("{name}-clicks", schema="user bigint, ms bigint, at timestamp_ms", time="at")
joined = clicks.join(users, on="user").through("{name}-joined", lateness="1 hour")
windows = joined.group_by("country").window(rr.tumbling("10 minutes"))
minutes = windows.agg(n=rr.count(), ms=rr.sum("ms"))
minutes.to(rr.sinks.sqlite("{file}", "minutes"))
clicks.where("ms > 990").to("{name}-slow")
"""


def test_every_result_of_a_program_beside_itself_is_a_topic_of_its_own(tmp_path):
    app = rr.App("shop")
    orders = app.stream("orders", schema="id bigint, price double")
    dear = orders.where("price > 10").through("dear")
    dear.group_by("id").agg(n=rr.count()).to(rr.sinks.sqlite(str(tmp_path / "a.db"), "per_id"))
    dear.to(rr.sinks.webhook("http://127.0.0.1:1/x"))
    orders.to(rr.sinks.topic("all", partitions=3))
    beside = scratch_outputs(tuple(app.outputs), "v2")
    assert all(each.sink.kafka_topic().startswith("v2.") for each in beside)
    assert {"v2.dear", "v2.all"} < {each.sink.name for each in beside}
    own = rr.App("v2")
    own.outputs = list(beside)
    assert sorted(source.topic for source in own.program().sources) == ["orders", "v2.dear"]
    driver = Driver(own)
    driver.send("orders", {"id": 1, "price": 11})
    driver.batch()
    driver.batch()
    assert not (tmp_path / "a.db").exists()


def test_a_program_that_decides_commands_is_not_run_beside_itself():

    app = rr.App("buying")
    app.aggregate("basket", baskets.Basket, commands="basket-commands", events="basket-events")
    with pytest.raises(InputError, match="decides commands"):
        scratch_outputs(tuple(app.outputs), "v2")


def test_nobody_is_alerted_by_a_replay():
    app = rr.App("watching")
    errors = app.stream("errors", schema="service string, n bigint")
    errors.alert(rr.alerts.webhook("http://127.0.0.1:1/x"), group_by="service")
    for output in scratch_outputs(tuple(app.outputs), "v2"):
        assert type(output.sink) is Topic


def test_a_program_with_personal_columns_is_not_run_beside_itself():
    app = rr.App("people")
    personal = rr.personal("email", subject="id")
    app.stream("people", schema="id string, email string", personal=personal).to("copies")
    with pytest.raises(InputError, match="personal columns"):
        scratch_outputs(tuple(app.outputs), "v2")


@pytest.mark.parametrize(
    "given", ["yesterday", "orders=5", "orders/x=5", "orders/0=-5", "orders/0=", "2026-01-01=5"]
)
def test_a_span_that_cannot_be_read_is_refused(given):
    with pytest.raises(rr.RiverrunError):
        Asked.of([given], [])
    with pytest.raises(rr.RiverrunError):
        Asked.of([], ["2026-01-01", given, "2026-02-01"])


def send(client: dict[str, str], name: str) -> tuple[list[dict], list[dict]]:
    """Clicks of an hour, one each second, in two partitions, and users who move at half past."""
    producer, clicks, users = Producer(client), [], []
    for number in range(20):
        for at, country in ((0, "de"), (30, "fr" if number % 2 else "de")):
            users.append({"user": number, "country": country})
            key = json.dumps({"user": number})
            time = START + at * MINUTE
            producer.produce(f"{name}-users", json.dumps(users[-1]), key, 0, timestamp=time)
    for number in range(3600):
        at = START + number * 1000
        clicks.append({"user": number % 20, "ms": number * 7919 % 1000, "at": at})
        text = json.dumps(clicks[-1])
        producer.produce(f"{name}-clicks", text, None, number % 2, timestamp=at)
    assert producer.flush(30) == 0
    return clicks, users


def by_duckdb(clicks: list[dict], first: int, last: int) -> list[tuple]:
    """Of the minutes from `first` to `last`; users are as they stand in the end."""
    country = {n: "fr" if n % 2 else "de" for n in range(20)}
    low, high = START + first * MINUTE, START + last * MINUTE
    rows = [(country[c["user"]], c["at"], c["ms"]) for c in clicks if low <= c["at"] < high]
    with duckdb.connect() as own:
        own.execute("CREATE TABLE rows (country text, moment bigint, ms bigint)")
        own.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        return own.execute(
            "SELECT country, moment // 600000 * 600000 AS slot, count(*), sum(ms)::bigint "
            "FROM rows GROUP BY ALL ORDER BY ALL"
        ).fetchall()


def minutes_of(found: dict[str, dict]) -> list[tuple]:
    return sorted(
        (row["country"], milliseconds_of(row["window_start"]), row["n"], row["ms"])
        for row in found.values()
    )


def replay(home: Path, *given: str) -> str:
    """It starts a Spark of its own."""
    told = subprocess.run(
        [*COMMAND, "replay", *given], env={**os.environ, "RIVERRUN_HOME": str(home)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.broker
@pytest.mark.spark
def test_a_part_of_history_is_replayed_beside_the_program_that_runs(
    tmp_path, broker, broker_settings, riverrun
):
    name, file = "replayed", tmp_path / "copy.db"
    riverrun("topics", "create", f"{name}-clicks", "--partitions", "2")
    riverrun("topics", "create", f"{name}-users", "--partitions", "1")
    clicks, _ = send(broker, name)
    program = tmp_path / "app.py"
    program.write_text(PROGRAM.format(name=name, file=file))
    with Run(program, "--once", "--close", home=broker_settings.home) as run:
        assert run.end() == 0, run.error()
    with closing(sqlite3.connect(file)) as own:
        before = own.execute("SELECT count(*), sum(n) FROM minutes").fetchall()
    assert before == [(12, 3600)]
    ends = {each.name: each.span for each in admin.topics(broker) if each.name.startswith(name)}

    asked = (
        "--into",
        "half-replayed",
        "--from",
        "2026-01-01T00:20",
        "--to",
        "2026-01-01T00:50:00Z",
    )
    found = json.loads(replay(broker_settings.home, str(program), *asked, "--close", "--json"))
    slow = [c for c in clicks[20 * 60 : 50 * 60] if c["ms"] > 990]
    assert found["outputs"][f"half-replayed.{name}-slow"] == len(slow)
    assert found["events"] == 2 * 30 * 60 + 40
    got = {}
    for topic in found["outputs"]:
        if "minutes" in topic:
            got = table(broker, topic)
    assert minutes_of(got) == by_duckdb(clicks, 20, 50)
    assert len(records(broker, f"half-replayed.{name}-joined")) == 30 * 60

    # nothing of the program was touched
    now = {each.name: each.span for each in admin.topics(broker) if each.name.startswith(name)}
    assert now == ends
    with closing(sqlite3.connect(file)) as own:
        assert own.execute("SELECT count(*), sum(n) FROM minutes").fetchall() == before

    again = riverrun(
        "replay", str(program), "--into", "half-replayed", "--from", "2026-01-01T00:30"
    )
    assert again.code != 0
    assert "is another replay" in again.err
    assert "there is an application" in riverrun("replay", str(program), "--into", name).err
    assert riverrun("replay", "--remove", "half-replayed").code == 0
    assert not [each for each in admin.topics(broker) if each.name.startswith("half-replayed.")]
    assert not broker_settings.checkpoint_of("half-replayed").exists()
    assert "there is no replay" in riverrun("replay", "--remove", name).err

    # what is gone is told
    own = AdminClient(broker)  # answers come only as long as it is there
    for each in own.delete_records([TopicPartition(f"{name}-clicks", 1, 700)]).values():
        each.result()
    refused = riverrun("replay", str(program), "--into", "late", "--from", "2026-01-01T00:20")
    assert "retention has deleted what was before" in refused.err
    assert f"{name}-clicks/1 begins at offset 700" in refused.err
    assert not broker_settings.checkpoint_of("late").exists()
