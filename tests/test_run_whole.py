"""Transfers between accounts in two tables, by `riverrun run`: no reader ever sees another sum."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from riverrun.kafka import admin
from running import Run
from transfers import NAMES, PARTITIONS, TOLD, Bank, Record, by_partition

PROGRAM = """
import riverrun as rr
app = rr.App("bank")
accounts = [
    app.table(f"bank.public.{{name}}", schema="id bigint, money bigint, note string", key="id",
              format="debezium")
    for name in "ab"
]
for name, table in zip("ab", app.whole(*accounts, transactions="bank.transaction")):
    table.to(rr.sinks.postgres(f"bank_{{name}}"), rr.sinks.sqlite({file!r}, name))
"""
SUM = "SELECT (SELECT coalesce(sum(money), 0) FROM {0}) + (SELECT coalesce(sum(money), 0) FROM {1})"
ACCOUNTS, TRANSACTIONS = 20, 600
TOTAL = 2 * ACCOUNTS * 100


class Reader(threading.Thread):
    """Asks for the sum all the time, in one statement each; notes what it is once all are there."""

    def __init__(self, ask: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self.ask, self.over, self.seen, self.times = ask, threading.Event(), set[int](), 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                found = self.ask()
                if self.seen or found == TOTAL:
                    self.seen.add(found)
                    self.times += 1
                time.sleep(0.002)
        except Exception as error:  # it is told by the test
            self.error = error

    def end(self) -> None:
        self.over.set()
        self.join(30)
        assert self.error is None, self.error
        assert self.seen == {TOTAL}
        assert self.times > 100


def of_postgres(url: str) -> int:
    try:
        with psycopg.connect(url) as connection:
            [found] = connection.execute(SUM.format("bank_a", "bank_b")).fetchone() or (0,)
            return int(found)
    except psycopg.errors.UndefinedTable:
        return 0


def of_sqlite(file: Path) -> int:
    if not file.exists():
        return 0
    try:
        with closing(sqlite3.connect(file, timeout=30)) as connection:
            return int(connection.execute(SUM.format("a", "b")).fetchone()[0])
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return 0
        raise


def write(client: dict[str, str], records: list[Record]) -> None:
    """Partition after partition: what belongs together is far apart."""
    producer = Producer(client)
    for lane in by_partition(records).values():
        for topic, partition, key, value in lane:
            producer.produce(topic, value, key, partition=partition)
            producer.poll(0)
        assert producer.flush(30) == 0


@pytest.mark.broker
@pytest.mark.spark
def test_no_reader_sees_half_of_a_transfer_also_when_the_job_is_killed(
    broker, broker_settings, postgres, tmp_path, once
):
    for name in NAMES:
        admin.create_topic(broker, f"bank.public.{name}", partitions=PARTITIONS)
    admin.create_topic(broker, TOLD)
    bank = Bank(5, ACCOUNTS)
    write(broker, bank.snapshot())
    program, file = tmp_path / "bank.py", tmp_path / "bank.db"
    program.write_text(PROGRAM.format(file=str(file)))
    readers = [Reader(lambda: of_postgres(postgres)), Reader(lambda: of_sqlite(file))]
    for reader in readers:
        reader.start()
    home = broker_settings.home
    with Run(program, "--max-events", "500", home=home) as run:
        run.until(2 * ACCOUNTS)
        for _ in range(3):
            some = [bank.transact() for _ in range(TRANSACTIONS // 3)]
            write(broker, [record for each in some for record in each])
        run.until(1200)
    once(program, "--batch-time", "1 minute")
    for reader in readers:
        reader.end()
    with psycopg.connect(postgres) as server, closing(sqlite3.connect(file)) as own:
        for name in NAMES:
            wanted = sorted(tuple(row.values()) for row in bank.tables[name].values())
            found = server.execute(f"SELECT id, money, note FROM bank_{name}").fetchall()
            assert sorted(found) == wanted
            assert sorted(own.execute(f"SELECT id, money, note FROM {name}")) == wanted
        writers = server.execute(
            "SELECT count(*) FROM riverrun_progress WHERE application = 'bank'"
        ).fetchone()
        assert writers == (1,)
