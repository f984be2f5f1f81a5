"""What happens to tables, publications and slots behind a capture's back: no row is lost by it."""

from __future__ import annotations

import time
from dataclasses import replace

import psycopg
import pytest

from riverrun.capture.own import OwnCapturer


@pytest.mark.broker
def test_a_table_that_is_dropped_while_it_is_read_lets_the_others_go_on(source):
    source.execute("CREATE TABLE @one (id int PRIMARY KEY)")
    source.execute("CREATE TABLE @two (id int PRIMARY KEY)")
    source.ensure("one")
    source.loaded()
    with psycopg.connect(source.url) as long:  # the snapshot waits for its end
        long.execute("SELECT pg_current_xact_id()")
        source.ensure("two", "three")
        source.until(lambda state: any(t.doing == "snapshot" for t in state.tables))
        source.execute("DROP TABLE @two")
    source.execute("INSERT INTO @one VALUES (1)")
    state = source.until(lambda state: sum(t.doing == "failed" for t in state.tables) == 2)
    errors = {t.table.split(".")[1]: t.error for t in state.tables}
    assert errors == {
        "one": None, "two": "the table was dropped", "three": "there is no such table"
    }  # fmt: skip
    source.settle("one")
    source.execute("CREATE TABLE @three (id int PRIMARY KEY)")
    source.execute("INSERT INTO @three VALUES (3)")
    source.until(lambda state: any(t.table.endswith("three") and t.loaded for t in state.tables))
    source.settle("three")
    assert "Traceback" not in source.capture.files.log.read_text()


@pytest.mark.broker
def test_what_a_publication_left_out_and_what_a_dropped_table_had_leave_no_trace(source):
    for table in ("left_out", "again"):
        source.execute(f"CREATE TABLE @{table} (id int PRIMARY KEY, v int)")
        source.execute(f"INSERT INTO @{table} VALUES (1, 1)")
    source.ensure("left_out", "again")
    source.loaded()
    source.capture.stop()
    for table in ("left_out", "again"):
        source.execute(f"INSERT INTO @{table} VALUES (2, 2)")
    source.execute(f"ALTER PUBLICATION riverrun_{source.schema} DROP TABLE @left_out")
    source.execute("DELETE FROM @left_out WHERE id = 2")
    source.execute("DROP TABLE @again")
    source.execute("CREATE TABLE @again (name text PRIMARY KEY)")
    source.execute("ALTER TABLE @again REPLICA IDENTITY FULL")
    source.execute("INSERT INTO @left_out VALUES (3, 3)")
    source.ensure()
    source.loaded()
    source.execute("INSERT INTO @again VALUES ('x')")
    for table in ("left_out", "again"):
        source.settle(table)
    source.execute(f"DROP PUBLICATION riverrun_{source.schema}")  # while it runs
    source.execute("INSERT INTO @left_out VALUES (4, 4)")
    source.settle("left_out")
    assert len(source.table("left_out")) == 3


@pytest.mark.broker
def test_a_transaction_comes_through_that_takes_longer_than_the_server_waits(source):
    patience = "?options=-c%20wal_sender_timeout%3D2s"
    settings = replace(source.capture.settings, postgres=source.url + patience)
    source.capture = OwnCapturer(settings, source.capture.name)
    source.execute("CREATE TABLE @many (id int PRIMARY KEY)")
    source.ensure("many")
    source.loaded()
    source.execute("INSERT INTO @many SELECT generate_series(1, 60000)")
    source.settle("many")
    assert len(source.table("many")) == 60_000


@pytest.mark.broker
def test_a_capture_that_finds_the_slot_of_another_leaves_it_when_it_is_removed(source):
    source.execute("CREATE TABLE @users (id int PRIMARY KEY)")
    source.ensure("users")
    source.loaded()
    other = OwnCapturer(source.capture.settings, source.schema.upper())
    other.ensure([f"{source.schema}.users"])
    give_up = time.monotonic() + 60
    while other.state().doing != "failed":
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert "has not made" in str(other.state().error)
    other.remove()
    source.execute("INSERT INTO @users VALUES (1)")
    source.settle("users")
