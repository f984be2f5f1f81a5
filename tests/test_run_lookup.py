"""Lookups on Spark: the database changes, jobs are killed, and no batch is told two things."""

from __future__ import annotations

import json
import signal
import time

import psycopg
import pytest

from riverrun.config import Settings
from riverrun.embedded import ports
from riverrun.embedded import postgres as embedded
from riverrun.kafka import admin
from running import PATIENCE, Run, kill_between_write_and_commit, produce, records

PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=4)
orders = app.stream({topic!r}, schema="id bigint, customer bigint")
orders.lookup({address!r}, table="customers", on={{"customer": "id"}}, columns=["name"],
              cache={cache!r}).to({out!r})
"""
ORDERS = 3000


def _written(broker, topic):
    return [json.loads(value) for _, value in records(broker, topic)]


@pytest.mark.broker
@pytest.mark.spark
def test_a_batch_that_is_run_again_after_a_kill_finds_what_it_found(
    broker, broker_settings, postgres, tmp_path, once
):
    """Every row that was written before the kill would be another one now."""
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text)")
        database.execute("INSERT INTO customers SELECT n, 'a' FROM generate_series(0, 99) n")
        admin.create_topic(broker, "asked-orders", partitions=2)
        program = tmp_path / "asking.py"
        program.write_text(
            PROGRAM.format(
                name="asking", topic="asked-orders", address=postgres, cache=None, out="asked-out"
            )
        )
        home, sent = broker_settings.home, 0
        for attempt in range(8):
            new = [{"id": sent + n, "customer": n % 120} for n in range(ORDERS)]
            produce(broker, "asked-orders", new, partitions=2)
            sent += ORDERS
            with Run(program, home=home) as run:
                between = kill_between_write_and_commit(run, broker, "asking", home)
            database.execute("UPDATE customers SET name = %s", (f"b{attempt}",))
            if between:
                break
        assert between, "no kill came between a write and its commit"
        once(program)
    rows = _written(broker, "asked-out")
    assert sorted(row["id"] for row in rows) == list(range(sent))
    assert all((row["name"] is None) == (row["customer"] >= 100) for row in rows)
    last = {row["name"] for row in rows if row["id"] >= sent - ORDERS} - {None}
    assert f"b{attempt}" not in last, "the batch was asked for anew"


@pytest.fixture
def own_server(tmp_path_factory):
    """A server that this test may stop."""
    home = tmp_path_factory.mktemp("stopped")
    settings = Settings(home=home, cache=home)
    port = ports.any_free()
    embedded.up(settings, port=port)
    yield settings, port
    embedded.down(settings)


@pytest.mark.broker
@pytest.mark.spark
def test_a_job_waits_for_a_database_that_is_away_and_says_so(
    broker, broker_settings, own_server, tmp_path
):
    settings, port = own_server
    address = embedded.ensure(settings)
    with psycopg.connect(address, autocommit=True) as database:
        database.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text)")
        database.execute("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')")
    admin.create_topic(broker, "patient-orders")
    program = tmp_path / "patient.py"
    program.write_text(
        PROGRAM.format(
            name="patient", topic="patient-orders", address=address, cache=None, out="patient-out"
        )
    )
    produce(broker, "patient-orders", [{"id": 1, "customer": 1}])
    with Run(program, home=broker_settings.home) as run:
        run.until(1)
        embedded.down(settings)
        produce(broker, "patient-orders", [{"id": 2, "customer": 2}])
        give_up = time.monotonic() + PATIENCE
        while "waiting for PostgreSQL table customers" not in run.error():
            assert time.monotonic() < give_up, run.error()
            assert run.process.poll() is None, run.error()
            time.sleep(0.2)
        embedded.up(settings, port=port)
        run.until(2)
        assert "over: the database answers again" in run.error()
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 0
    found = {row["id"]: row["name"] for row in _written(broker, "patient-out")}
    assert found == {1: "Ann", 2: "Bob"}


def test_a_file_is_not_looked_up_on_a_cluster(riverrun, tmp_path):
    file = tmp_path / "app.py"
    text = PROGRAM.format(
        name="far", topic="t", address="sqlite:///far.db", cache="1 hour", out="out"
    ).replace('columns=["name"]', 'schema="name string"')
    file.write_text(text)
    outcome = riverrun("run", str(file), "--master", "spark://host:7077")
    assert outcome.code == 2
    assert "a program with such a lookup runs on one machine [RR102]" in outcome.err


def test_a_database_that_does_not_answer_is_an_error_before_spark_starts(
    broker, riverrun, tmp_path
):
    admin.create_topic(broker, "unasked-orders")
    file = tmp_path / "app.py"
    address = "postgresql://own:s3cret@127.0.0.1:1/shop"
    text = PROGRAM.format(
        name="unasked", topic="unasked-orders", address=address, cache="1 hour", out="out"
    ).replace('columns=["name"]', 'schema="name string"')
    file.write_text(text)
    outcome = riverrun("run", str(file))
    assert outcome.code == 2
    assert "error: PostgreSQL cannot be reached [RR204]" in outcome.err
    assert "127.0.0.1:1/shop" in outcome.err
    assert "s3cret" not in outcome.err + outcome.out
    assert "Spark is there" not in outcome.err + outcome.out
