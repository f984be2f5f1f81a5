"""Whole transactions of a real database, by `riverrun run`, with all that a transaction can do and
with `kill -9` of the program and of the capture: no reader ever sees a part of one."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from riverrun.capture.own import OwnCapturer
from riverrun.embedded import process
from running import Run

PROGRAM = """
import riverrun as rr
app = rr.App("ledger")
copies = app.capture(["ledger.a", "ledger.b"], name="ledger", transactions="whole")
for name, table in zip("ab", copies):
    table.to(rr.sinks.sqlite({file!r}, name))
"""
ACCOUNTS = 150
TOTAL = (2 * ACCOUNTS * 100, 2 * ACCOUNTS)
SUM = "SELECT sum(money), count(*) FROM (SELECT money FROM a UNION ALL SELECT money FROM b)"
BOTH = ("a", "b")


class Writer(threading.Thread):
    """Money goes to and fro; together there is always the same, in as many accounts."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.url, self.draw, self.over, self.made = url, random.Random(seed), threading.Event(), 0

    def run(self) -> None:
        with psycopg.connect(self.url) as connection:
            while not self.over.is_set():
                act = self.draw.choices(ACTS, weights=WEIGHTS)[0]
                try:
                    with connection.transaction(force_rollback=self.draw.random() < 0.1):
                        for _ in range(self.draw.choice([1, 1, 3])):
                            act(self, connection)
                    self.made += 1
                except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                    continue
                time.sleep(0.01)

    def one(self) -> int:
        return self.draw.randrange(ACCOUNTS)

    def move(self, on: Any) -> None:
        one, other = self.draw.sample(BOTH, 2)
        change = "UPDATE ledger.{} SET money = money + %s WHERE id = (SELECT id FROM ledger.{} "
        change += "ORDER BY id OFFSET %s LIMIT 1)"
        if on.execute(change.format(one, one), (-5, self.one())).rowcount:
            found = on.execute(change.format(other, other), (5, self.one())).rowcount
            if not found:  # it got another number meanwhile
                raise psycopg.Rollback

    def other_key(self, on: Any) -> None:
        table, new = self.draw.choice(BOTH), self.draw.randrange(10_000)
        on.execute(f"UPDATE ledger.{table} SET id = %s WHERE id = %s", (new, self.one()))

    def put_back(self, on: Any) -> None:
        table = self.draw.choice(BOTH)
        gone = on.execute(
            f"DELETE FROM ledger.{table} WHERE id = %s RETURNING id, money", (self.one(),)
        ).fetchall()
        for row in gone:
            on.execute(f"INSERT INTO ledger.{table} VALUES (%s, %s, %s)", (*row, "n" * 3000))
        self.move(on)

    def undone(self, on: Any) -> None:
        with on.transaction(force_rollback=True):
            on.execute("UPDATE ledger.a SET money = 0")
            on.execute("DELETE FROM ledger.b")
        with on.transaction():
            self.move(on)

    def elsewhere(self, on: Any) -> None:
        on.execute("INSERT INTO ledger.c SELECT n FROM generate_series(1, 20) AS n")
        if self.draw.random() < 0.5:
            self.move(on)

    def nothing(self, on: Any) -> None:
        on.execute("SELECT pg_current_xact_id()")

    def large(self, on: Any) -> None:
        """More rows than a batch."""
        on.execute("LOCK ledger.a, ledger.b")
        on.execute("UPDATE ledger.a SET money = money + 1")
        on.execute("UPDATE ledger.b SET money = money - 1")

    def emptied(self, on: Any) -> None:
        on.execute("LOCK ledger.a, ledger.b")
        on.execute("CREATE TEMP TABLE t ON COMMIT DROP AS SELECT * FROM ledger.a")
        on.execute("TRUNCATE ledger.a, ledger.c")
        on.execute("INSERT INTO ledger.a SELECT * FROM t")
        on.execute("DROP TABLE t")


ACTS = (
    Writer.move, Writer.other_key, Writer.put_back, Writer.undone, Writer.elsewhere, Writer.nothing,
    Writer.large, Writer.emptied,
)  # fmt: skip
WEIGHTS = (30, 10, 10, 10, 10, 5, 2, 1)


class Reader(threading.Thread):
    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self.file, self.over, self.times = file, threading.Event(), 0
        self.seen = set[Any]()

    def run(self) -> None:
        while not self.over.is_set():
            found = None
            if self.file.exists():
                own = closing(sqlite3.connect(self.file, timeout=60))
                with own as connection, suppress(sqlite3.OperationalError):  # no table, at first
                    found = connection.execute(SUM).fetchone()
            if self.seen or found == TOTAL:  # once the snapshot is there
                self.seen.add(found)
                self.times += 1
            time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_captured_tables_of_a_database_are_copied_by_whole_transactions(
    broker_settings, postgres, monkeypatch, tmp_path
):
    monkeypatch.setenv("RIVERRUN_POSTGRES", postgres)
    settings, home = replace(broker_settings, postgres=postgres), broker_settings.home
    program, file = tmp_path / "ledger.py", tmp_path / "ledger.db"
    program.write_text(PROGRAM.format(file=str(file)))
    capture = OwnCapturer(settings, "ledger")
    with psycopg.connect(postgres, autocommit=True) as source:
        source.execute("CREATE SCHEMA ledger")
        source.execute("CREATE TABLE ledger.c (n int)")
        for name in BOTH:
            source.execute(
                f"CREATE TABLE ledger.{name} (id bigint PRIMARY KEY, money bigint, note text "
                "STORAGE EXTERNAL)"
            )
            source.execute(
                f"INSERT INTO ledger.{name} SELECT n, 100, repeat('x', 3000) "
                f"FROM generate_series(0, {ACCOUNTS - 1}) AS n"
            )
        reader = Reader(file)
        reader.start()
        writers = [Writer(postgres, seed) for seed in range(3)]
        try:
            with Run(program, home=home) as run:
                run.until(2 * ACCOUNTS)
                for writer in writers:
                    writer.start()
                time.sleep(15)
            for _ in range(2):
                with Run(program, "--max-events", "100", home=home) as run:
                    run.until(1000)
                    found = capture.process()
                    assert found is not None
                    os.kill(found.pid, signal.SIGKILL)
                    while process.alive(found.pid):
                        time.sleep(0.01)
                    capture.ensure(["ledger.a", "ledger.b"])
                    time.sleep(5)
            for writer in writers:
                writer.over.set()
                writer.join(30)
            with Run(program, "--batch-time", "1 minute", home=home) as run:
                _until_equal(source, file, run)
                assert run.statuses()[-1]["causes"] == {}
                assert run.statuses()[-1]["dead"] == 0
            reader.over.set()
            reader.join(60)
            assert reader.seen == {TOTAL}
            assert reader.times > 100
            assert sum(writer.made for writer in writers) > 100
        finally:
            for writer in writers:
                writer.over.set()
            capture.remove()
            source.execute("DROP SCHEMA ledger CASCADE")


def _until_equal(source: Any, file: Path, run: Run) -> None:
    give_up = time.monotonic() + 300
    wanted = {name: set(source.execute(f"SELECT * FROM ledger.{name}")) for name in BOTH}
    while True:
        with closing(sqlite3.connect(file, timeout=60)) as own:
            found = {name: set(own.execute(f"SELECT id, money, note FROM {name}")) for name in BOTH}
        if found == wanted:
            return
        assert run.process.poll() is None, run.error()
        assert time.monotonic() < give_up, {n: len(found[n] ^ wanted[n]) for n in BOTH}
        time.sleep(0.5)
