"""Captured tables in programs and commands: `app.capture`, `riverrun run`, `riverrun capture`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing

import psutil
import psycopg
import pytest
from confluent_kafka import Producer

import riverrun as rr
from envelopes import envelope
from riverrun.capture.own import OwnCapturer
from riverrun.compiler.describe import as_text
from riverrun.compiler.passes import passed
from riverrun.formats.debezium import UNAVAILABLE
from riverrun.kafka.browse import Browser
from riverrun.runtime.capturing import READ_AGAIN
from riverrun.testing import Driver
from running import Run

USERS = "id bigint PRIMARY KEY, name text, price numeric(9,2), at timestamptz, bio text"
PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=2)
app.capture({table!r}, name={name!r}).to(rr.sinks.sqlite({file!r}, "users"))
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_captured_table_is_kept_in_another_database_by_one_line(
    source, broker, broker_settings, tmp_path
):
    source.execute(f"CREATE TABLE @users ({USERS})")
    source.execute(
        "INSERT INTO @users SELECT n, 'user ' || n, n / 8.0, '2026-01-01', repeat('x', 3000) "
        "FROM generate_series(1, 500) AS n"
    )
    program, file = tmp_path / "captured.py", tmp_path / "copy.db"
    program.write_text(
        PROGRAM.format(name=source.schema, table=f"{source.schema}.users", file=str(file))
    )

    def stored() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(file)) as own:
            return own.execute("SELECT id, name, price, bio FROM users ORDER BY id").fetchall()

    def wanted() -> list[tuple[object, ...]]:
        query = "SELECT id, name, price::text, bio FROM @users ORDER BY id"
        return [tuple(row) for row in source.execute(query)]

    with Run(program, home=broker_settings.home) as run:
        run.until(500)
        assert len(stored()) == 500
        os.kill(source.capture.running(), signal.SIGKILL)  # the program sees it, and starts another
        source.execute("UPDATE @users SET name = upper(name) WHERE id % 3 = 0")
        source.execute("DELETE FROM @users WHERE id % 5 = 0")
        source.execute("UPDATE @users SET id = id + 1000 WHERE id < 10")
        source.execute("INSERT INTO @users VALUES (0, 'new', 1, now(), 'short')")
        give_up = time.monotonic() + 90
        while [(a, b, str(c), d) for a, b, c, d in stored()] != wanted():
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.2)
        # as if a change of its key had left the row's large value out
        row = {"id": 11, "name": "user 11", "price": "1.38", "bio": UNAVAILABLE}
        lose(broker, f"{source.schema}.{source.schema}.users", {"id": 11}, envelope("c", row))
        noted = broker_settings.run_of(source.schema) / "status" / READ_AGAIN
        while not noted.exists():
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.2)
        while [(a, b, str(c), d) for a, b, c, d in stored()] != wanted():
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.2)


def lose(client: dict[str, str], topic: str, key: dict[str, object], value: str) -> None:
    """The row is deleted, and comes again by this record."""
    with Browser(client, topic) as browser:
        found = [m for m in browser.read(browser.earliest) if json.loads(m.key()) == key]
    producer = Producer(client)
    for each in (None, value):
        producer.produce(topic, each, found[-1].key(), partition=found[-1].partition())
    assert producer.flush(30) == 0


@pytest.mark.broker
def test_a_capture_is_paused_resumed_and_removed_with_what_the_database_kept_for_it(
    source, riverrun, monkeypatch
):
    source.execute("CREATE TABLE @users (id int PRIMARY KEY)")
    source.ensure("users")
    source.loaded()
    name = source.schema
    assert json.loads(riverrun("capture", "pause", name, "--json").out)["doing"] == "paused"
    source.execute("INSERT INTO @users VALUES (1)")
    time.sleep(0.5)
    assert source.table("users") == {}
    assert "streaming" in riverrun("capture", "resume", name).out
    source.settle("users")
    shown = riverrun("capture", "snapshot", name, f"{name}.users").out
    assert f"{name}: all rows of {name}.users are read once more" in shown
    shown = riverrun("capture", "status", name, "--wait").out
    assert "100%" in shown
    assert f"{name}.{name}.users" in shown
    state = json.loads(riverrun("capture", "status", name, "--wait", "--json").out)
    assert (state["slot"], state["by"]) == (f"riverrun_{name}", "riverrun")
    assert [each["name"] for each in json.loads(riverrun("capture", "list", "--json").out)] == [
        name
    ]
    assert f"the capture {name} runs" in riverrun("status").out
    kept = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    assert source.execute(kept, f"riverrun_{name}") == [(1,)]
    source.capture.stop()
    assert source.capture.state().doing == "stopped"
    assert riverrun("capture", "remove", name, "--yes").code == 0
    assert source.execute(kept, f"riverrun_{name}") == [(0,)]
    published = "SELECT count(*) FROM pg_publication WHERE pubname = %s"
    assert source.execute(published, f"riverrun_{name}") == [(0,)]
    assert "no capture" in riverrun("capture", "status", name).err
    source.execute("DELETE FROM @users")
    source.ensure("users")  # begins anew: what the topic had is taken back
    source.loaded()
    assert source.table("users") == {}


@pytest.mark.broker
def test_passwords_are_in_no_log_argument_or_state(source, riverrun):
    source.execute("CREATE TABLE @users (id int PRIMARY KEY)")
    secret = "s3cret-word"
    url = source.url.replace("postgres@", f"postgres:{secret}@")
    capture = OwnCapturer(source.capture.settings, source.capture.name, url)
    capture.ensure([f"{source.schema}.users"])
    source.loaded()
    process = psutil.Process(capture.running())
    assert secret not in " ".join(process.cmdline())
    told = riverrun("capture", "status", source.schema, "--json").out
    files = [f for f in capture.files.folder.iterdir() if f.name != "capture.json"]
    assert secret not in told + "".join(f.read_text() for f in files)
    assert capture.files.wish_file.stat().st_mode & 0o077 == 0
    assert secret not in repr(capture.files.wish())


def test_what_cannot_be_captured_is_refused_when_the_program_is_built(postgres):
    app = rr.App("refused")
    schema = postgres.rpartition("%3D")[2]
    with psycopg.connect(postgres, autocommit=True) as own:
        own.execute("CREATE TABLE bare (id int)")
        own.execute("CREATE VIEW seen AS SELECT 1 AS id")
        own.execute("CREATE TABLE keyed (id int PRIMARY KEY, name text)")
    with pytest.raises(rr.ProgramError, match="has no key") as found:
        app.capture(f"{schema}.bare")
    assert "ADD PRIMARY KEY" in str(found.value)
    with pytest.raises(rr.ProgramError, match="cannot be captured"):
        app.capture(f"{schema}.seen")
    with pytest.raises(rr.ProgramError, match="there is no table"):
        app.capture("keyed")
    with pytest.raises(rr.ProgramError, match="another key"):
        app.capture(f"{schema}.keyed", key="name")
    away = "postgresql://ann:s3cret@127.0.0.1:1/shop"
    with pytest.raises(rr.ProgramError, match="cannot be reached") as found:
        app.capture("users", database=away)
    assert "s3cret" not in str(found.value)
    app.capture("users", database=away, schema="id bigint, name string", key="id")
    assert app.captures[0].columns.names == ("id", "name")
    assert "s3cret" not in repr(app.captures)
    with pytest.raises(rr.ProgramError, match="no name of a table"):
        app.capture("a.b.c")


def test_without_a_database_the_error_says_how_to_go_on():
    with pytest.raises(rr.ProgramError, match="PostgreSQL is not running") as found:
        rr.App("away").capture("users")
    assert "riverrun up --postgres" in str(found.value)


def test_a_captured_table_is_fed_and_described_like_any_other(tmp_path):
    app = rr.App("fed", pages=1)
    users = app.capture("users", name="shop", schema="id bigint, name string", key="id")
    users.to("copy")
    driver = Driver(app)
    driver.send("shop.public.users", envelope("c", {"id": 1, "name": "ann"}))
    driver.batch().assert_is("+- | id | name\n+ | 1 | ann")
    text = as_text(passed(app.plan()), tmp_path)
    assert "captured  public.users of the capture shop" in text
