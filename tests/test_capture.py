"""Tables of PostgreSQL as topics: a snapshot, then every change, whatever happens in between."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import replace

import psycopg
import pytest

import riverrun as rr
from chaos_capture import ChaosCapture
from riverrun import config
from riverrun.kafka import admin
from riverrun.testing import Driver

TYPES = """
    id int PRIMARY KEY, small smallint, big bigint, real real, double double precision,
    price numeric(9,2), any_number numeric, yes boolean, plain text, short varchar(20),
    fixed char(5), day date, clock time, at timestamp, zoned timestamptz, span interval,
    raw bytea, doc jsonb, old_doc json, mark uuid, mood @mood, level @level, numbers int[],
    words text[], prices numeric(9,2)[], days date[], address inet, period int4range
"""
ROW = """
    1, -7, 9007199254740993, 1.5, 1e300, 12.30, 123456789012345678901234567890.5, true, 'Zoë "x"',
    'short', 'ab', '2026-01-31', '12:34:56.5', '2026-01-31 12:34:56.000005',
    '2026-01-31 12:34:56+02', '1 day 2 hours', '\\x00ff', '{"a": [1, null]}', '{"b":2}',
    '00000000-0000-0000-0000-00000000000a',
    'sad', 5, '{1,NULL,3}', '{"a,b",NULL,"NULL"}', '{1.50,2}', '{2026-01-01}', '10.0.0.1', '[1,5)'
"""


@pytest.mark.broker
def test_every_type_is_a_column_that_a_program_reads(source):
    source.execute("CREATE TYPE @mood AS ENUM ('sad', 'glad')")
    source.execute("CREATE DOMAIN @level AS int CHECK (value < 10)")
    source.execute(f"CREATE TABLE @things ({TYPES})")
    source.execute(f"INSERT INTO @things VALUES ({ROW})")
    source.execute("INSERT INTO @things (id) VALUES (2)")
    source.ensure("things")
    source.loaded()
    source.execute("UPDATE @things SET id = 3 WHERE id = 1")  # once more, by the log
    source.execute(f"INSERT INTO @things VALUES ({ROW})")
    source.execute("INSERT INTO @things (id, double, price) VALUES (4, 'NaN', 1)")
    app = rr.App("types", pages=1)
    app.capture(f"{source.schema}.things", name=source.schema).to("copy")
    driver, rows = Driver(app), {}
    give_up = time.monotonic() + 30
    while len([r for r in source.records(source.topic("things")) if r[2]]) < 6:
        assert time.monotonic() < give_up
        time.sleep(0.1)
    for partition, key, value in source.records(source.topic("things")):
        text = None if value is None else json.dumps(value)
        driver.send(source.topic("things"), text, key=key, partition=partition)
    driver.batch()
    assert not driver.outputs["dead"]
    for line in driver.outputs["copy"]:
        if line["op"] == "+":
            rows[line["value"]["id"]] = line["value"]
    assert {**rows[1], "id": 3} == rows[3]
    assert set(rows[2].values()) == {2, None}
    assert {name: rows[1][name] for name in ("big", "price", "any_number", "fixed", "raw")} == {
        "big": 9007199254740993, "price": 12.3, "raw": "AP8=", "fixed": "ab   ",
        "any_number": "123456789012345678901234567890.5",
    }  # fmt: skip
    times = ("day", "clock", "at", "zoned", "span")
    assert [rows[1][name] for name in times] == [
        "2026-01-31", "12:34:56.5", "2026-01-31T12:34:56.000005Z", "2026-01-31T10:34:56Z",
        "1 day 02:00:00",
    ]  # fmt: skip
    assert (rows[1]["numbers"], rows[1]["words"]) == ([1, None, 3], ["a,b", None, "NULL"])
    assert (rows[1]["mood"], rows[1]["level"], rows[1]["yes"]) == ("sad", 5, True)
    assert json.loads(rows[1]["doc"]) == {"a": [1, None]}


@pytest.mark.broker
def test_keys_that_change_large_values_and_truncating_leave_what_the_table_has(source):
    source.execute("CREATE TABLE @notes (place text, number int, body text, seen int, "
                   "PRIMARY KEY (place, number))")  # fmt: skip
    source.execute("CREATE TABLE @full (id int PRIMARY KEY, body text, seen int)")
    source.execute("ALTER TABLE @full REPLICA IDENTITY FULL")
    long = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) AS n)"
    source.execute(f"INSERT INTO @notes SELECT 'a', n, {long}, 0 FROM generate_series(1, 20) AS n")
    source.execute(f"INSERT INTO @full SELECT n, {long}, 0 FROM generate_series(1, 20) AS n")
    source.capture.settings = replace(source.capture.settings, compaction_lag=7_200_000_000)
    source.ensure("notes", "full")
    assert source.loaded().warning is None  # no value was left out yet
    policies = {t: admin.settings(source.client, source.topic(t)) for t in ("notes", "full")}
    assert [policies[t]["cleanup.policy"] for t in policies] == ["delete", "compact"]
    assert policies["full"]["min.compaction.lag.ms"] == "7200000"
    for table in ("notes", "full"):
        source.execute(f"UPDATE @{table} SET seen = seen + 1")
    source.execute("UPDATE @notes SET number = number + 100, place = 'b' WHERE number < 6")
    source.execute("UPDATE @full SET id = id + 100 WHERE id < 6")
    source.execute("DELETE FROM @notes WHERE number = 110 OR number = 7")
    source.execute("INSERT INTO @notes VALUES ('large', 1, repeat('x', 3000000), 1)")
    for table in ("notes", "full"):
        source.settle(table)
    warning = source.until(lambda state: state.warning is not None).warning
    assert f"{source.schema}.notes" in str(warning)
    assert f"{source.schema}.full" not in str(warning)
    ops = [v["op"] for _, _, v in source.records(source.topic("full")) if v is not None]
    assert "__debezium" not in json.dumps(source.records(source.topic("full")))
    assert Counter(ops) == Counter(r=20, u=20, d=5, c=5)
    source.execute("TRUNCATE @notes, @full")
    source.execute("INSERT INTO @notes VALUES ('z', 1, 'new', 1)")
    for table in ("notes", "full"):
        source.settle(table)
    assert len(source.table("notes")) == 1


@pytest.mark.broker
def test_columns_come_and_go_and_what_is_refused_goes_on_when_it_is_mended(source):
    source.execute("CREATE TABLE @users (id int PRIMARY KEY, name text, age int)")
    source.execute("CREATE TABLE @other (id int PRIMARY KEY)")
    source.execute("INSERT INTO @users VALUES (1, 'ann', 5)")
    source.ensure("users", "other")
    source.loaded()
    source.execute("ALTER TABLE @users ADD COLUMN mail text")
    source.execute("INSERT INTO @users VALUES (2, 'bob', 6, 'b@example.org')")
    source.execute("ALTER TABLE @users DROP COLUMN age")
    source.execute("UPDATE @users SET mail = 'x'")
    source.settle("users")
    source.execute("ALTER TABLE @users RENAME mail TO post")
    source.execute("INSERT INTO @other VALUES (1)")
    source.execute("INSERT INTO @users VALUES (3, 'cid', 'c@example.org')")
    state = source.until(lambda state: state.doing == "failed")
    assert "was renamed" in str(state.error)
    assert "mail is post now" in str(state.error)
    assert {t.table.split(".")[1]: t.doing for t in state.tables}["users"] == "failed"
    source.execute("ALTER TABLE @users RENAME post TO mail")
    source.until(lambda state: state.doing == "streaming")
    source.settle("users")
    source.settle("other")
    source.execute("ALTER TABLE @users ALTER name TYPE int USING length(name)")
    source.execute("INSERT INTO @users VALUES (4, 44, 'd@example.org')")
    state = source.until(lambda state: state.doing == "failed")
    assert "another type" in str(state.error)
    source.capture.snapshot(f"{source.schema}.users")  # taken as it is
    source.until(lambda state: state.doing == "streaming")
    source.settle("users")


@pytest.mark.broker
def test_a_further_snapshot_has_columns_of_which_the_log_has_told_nothing_yet(source):
    source.execute("CREATE TABLE @users (id bigint PRIMARY KEY, name text, old text)")
    source.execute("INSERT INTO @users SELECT n, 'a', 'b' FROM generate_series(1, 50) AS n")
    source.ensure("users")
    source.loaded()
    source.execute("ALTER TABLE @users ADD COLUMN city text DEFAULT 'Ulm'")
    source.capture.snapshot(f"{source.schema}.users")
    source.settle("users")
    source.execute("UPDATE @users SET name = 'c' WHERE id < 9")
    source.execute("ALTER TABLE @users DROP COLUMN old, ADD COLUMN more int DEFAULT 5")
    source.execute("DELETE FROM @users WHERE id = 20")
    source.capture.snapshot(f"{source.schema}.users")
    source.settle("users")
    assert source.table("users")['{"id":9}'] == {"id": 9, "name": "a", "city": "Ulm", "more": 5}


@pytest.mark.broker
def test_tables_are_added_and_read_again_while_changes_flow(source):
    source.execute("CREATE TABLE @one (id int PRIMARY KEY, v int)")
    source.execute("CREATE TABLE @two (k text, id int, v int, body text, PRIMARY KEY (k, id))")
    source.execute(
        "INSERT INTO @two SELECT chr(97 + n % 5), n, 0, CASE WHEN n % 50 = 0 THEN (SELECT "
        "string_agg(md5(m::text), '') FROM generate_series(n, n + 90) AS m) ELSE 'short' END "
        "FROM generate_series(1, 12000) AS n"
    )
    source.ensure("one")
    source.loaded()
    over = threading.Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(source.url, autocommit=True) as own:
            while not over.is_set():
                n, table = dice.randrange(12_000), f"{source.schema}.two"
                query = dice.choice([
                    f"UPDATE {table} SET v = v + 1 WHERE id = {n}",
                    f"DELETE FROM {table} WHERE id = {n}",
                    f"UPDATE {table} SET id = id + 50000 WHERE id = {n}",
                    f"INSERT INTO {table} VALUES ('c', {n} + 100000, 1, 'b') "
                    "ON CONFLICT DO NOTHING",
                ])  # fmt: skip
                own.execute(query)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    try:
        source.ensure("two")
        source.until(lambda state: any(t.table.endswith("two") and t.rows for t in state.tables))
        os.kill(source.capture.running(), signal.SIGKILL)
        while source.capture.running():
            time.sleep(0.01)
        source.ensure("two")
        source.loaded()

        def read() -> int:
            found = (value for _, _, value in source.records(source.topic("two")))
            return sum(value is not None and value["op"] == "r" for value in found)

        before = read()
        source.capture.snapshot(f"{source.schema}.two")
        source.until(lambda _: read() > before)
        source.loaded()
    finally:
        over.set()
        for writer in writers:
            writer.join()
    source.settle("two")
    unknown: set[str] = set()
    for _, key, value in source.records(source.topic("two")):
        if value is not None and value["op"] == "u":
            left_out = value["after"]["body"] == "__debezium_unavailable_value"
            assert not left_out or key in unknown, "the value is known to whoever reads the topic"
        if value is not None and value["op"] in ("r", "c", "u"):
            unknown.add(str(key))


@pytest.mark.broker
def test_whatever_is_killed_topics_equal_tables_and_transactions_are_whole(tmp_path):
    settings = config.load(start=tmp_path, environ={"RIVERRUN_HOME": str(tmp_path / "home")})
    chaos = ChaosCapture(settings, random.Random(3), print)
    try:
        chaos.start(rows=2000)
        chaos.write(2500, writers=4)
        chaos.source.ensure("accounts", "notes")
        chaos.source.until(lambda state: state.doing == "snapshot" or bool(state.position))
        for fault in ("capturer_killed", "capturer_killed", "database_killed", "column_added",
                      "broker_restarted", "zombie"):  # fmt: skip
            chaos.fault(fault)
        found = chaos.finish()
    finally:
        chaos.stop()
    assert found["rows that differ"] == {"accounts": 0, "notes": 0}
    assert found["transactions that are not whole"] == 0


@pytest.mark.broker
def test_idle_tables_let_the_log_go_and_one_that_is_made_again_begins_anew(source):
    source.execute("CREATE TABLE @users (id int PRIMARY KEY)")
    source.execute("CREATE TABLE @other (id int)")
    source.execute("INSERT INTO @users VALUES (1), (2)")
    source.ensure("users")
    source.loaded()
    source.execute("INSERT INTO @other SELECT generate_series(1, 50000)")
    kept = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) < 100000 "
    kept += "FROM pg_replication_slots WHERE slot_name = %s"
    give_up = time.monotonic() + 30
    while source.execute(kept, f"riverrun_{source.schema}") != [(True,)]:
        assert time.monotonic() < give_up
        time.sleep(0.2)
    source.execute("DROP TABLE @users")
    source.until(lambda state: state.tables[0].error == "the table was dropped")
    source.execute("CREATE TABLE @users (id text PRIMARY KEY)")
    source.execute("INSERT INTO @users VALUES ('new')")
    source.until(lambda state: state.tables[0].error is None)
    source.loaded()
    source.settle("users")
    assert list(source.table("users")) == ['{"id":"new"}']
