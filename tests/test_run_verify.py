"""`riverrun verify` and `riverrun rebuild` beside a job on Spark that writes all the time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psycopg
import pytest
from confluent_kafka import Producer

from riverrun.kafka import admin
from running import COMMAND, Run

PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=4)
users = app.table("{name}-users", schema="id bigint, team string, score double", key="id")
teams = users.group_by("team").agg(n=rr.count(), total=rr.sum("score"))
found = users.join(teams, on="team")
found.to(rr.sinks.postgres("found"), "{name}-found")
"""


@contextmanager
def traffic(client: dict[str, str], topic: str) -> Iterator[None]:
    """Users that come, change and go, until the block ends."""
    over, chance = Event(), random.Random(topic)
    producer = Producer({**client, "partitioner": "murmur2_random"})

    def send() -> None:
        while not over.wait(0.01):
            for _ in range(5):
                row = {"team": f"t{chance.randrange(20)}", "score": chance.random()}
                gone = chance.random() < 0.1
                value = None if gone else json.dumps(row)
                producer.produce(topic, value, str(chance.randrange(2000)))
            producer.poll(0)

    sending = Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        over.set()
        sending.join()
        assert producer.flush(30) == 0


@contextmanager
def watched(postgres: str, rows: int) -> Iterator[list[tuple[int, int]]]:
    """How many rows readers see, of all and of those that are wrong."""
    over, seen = Event(), list[tuple[int, int]]()

    def look() -> None:
        with psycopg.connect(postgres, autocommit=True) as server:
            while not over.wait(0.02):
                query = "SELECT count(*), count(*) FILTER (WHERE score < 0) FROM found"
                seen.append(server.execute(query).fetchone())

    looking = Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()
    assert min(count for count, _ in seen) > rows


@pytest.mark.broker
@pytest.mark.spark
def test_beside_a_job_that_never_rests_what_is_planted_is_found_and_put_right(
    broker, broker_settings, postgres, tmp_path, riverrun
):
    name, home = "restless", broker_settings.home
    admin.create_topic(broker, f"{name}-users", partitions=2, config={"cleanup.policy": "compact"})
    program = tmp_path / f"{name}.py"
    program.write_text(PROGRAM.format(name=name))
    sinks = ["postgres:found", f"{name}-found"]

    def same() -> None:
        for sink in sinks:
            found = riverrun("verify", str(program), sink)
            assert found.code == 0, found.out + found.err

    with traffic(broker, f"{name}-users"):
        with Run(program, home=home) as run, psycopg.connect(postgres, autocommit=True) as server:
            run.until(5000)
            same()
            server.execute("INSERT INTO found (id, team, _version) VALUES (-1, 'nobody', 0)")
            found = riverrun("verify", str(program), "postgres:found", "--json")
            assert found.code == 1, found.err
            planted = [(each["kind"], each["key"]) for each in json.loads(found.out)["differences"]]
            assert planted == [("extra", -1)]
            with watched(postgres, 1000):
                slain = subprocess.Popen(
                    [*COMMAND, "rebuild", str(program), "postgres:found"],
                    env={**os.environ, "RIVERRUN_HOME": str(home)},
                )
                time.sleep(4)
                slain.kill()
                slain.wait()
                for sink in sinks:
                    found = riverrun("rebuild", str(program), sink)
                    assert found.code == 0, found.err
            assert server.execute("SELECT 1 FROM found WHERE id = -1").fetchone() is None
            assert run.process.poll() is None, run.error()
        with Run(program, home=home) as run:  # after kill -9
            run.until(2000)
            same()
