"""`riverrun bench capture`: a database's changes, from its commit to a table that is read.

- Backlog: a million of Debezium's envelopes applied to a table, next to plain JSON records of the
  same size, from and to the same broker.
- Snapshot: a million rows of PostgreSQL, until the last of them is in the topic.
- Latency: 1,000 changes a second, each from its commit until a reader of an SQLite file sees it.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.progress import Progress

from riverrun.bench import load
from riverrun.bench.harness import Bench, Plan, batches_of
from riverrun.bench.report import Report
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.errors import JobError

TABLE = (
    "CREATE TABLE {} (id bigint PRIMARY KEY, name text, country text, credit numeric(12,2),"
    " seen timestamptz)"
)
FILLED = (
    "INSERT INTO {} SELECT n, 'user ' || n, 'country ' || n % 200, n / 100.0, now()"
    " FROM generate_series(1, {}) AS n"
)
CHANGED = "UPDATE {} SET credit = credit + 1, seen = clock_timestamp() WHERE id = ANY(%s)"
SEEN = "SELECT id FROM users WHERE id IN (SELECT value FROM json_each(?)) AND _version > ?"
COMMITS = 20
"""Transactions in a second."""
LOOK = 0.03
"""Seconds between two looks at the view."""
PATIENCE = 600.0


@dataclass(frozen=True)
class Sizes:
    records: int = 1_000_000
    """Of the backlog."""
    rows: int = 1_000_000
    """Of the snapshot."""
    per_second: int = 1_000
    seconds: int = 60
    batch: int = 250_000
    users: int = 100_000

    @property
    def smaller(self) -> Sizes:
        return Sizes(100_000, 100_000, 1_000, 20, 50_000, 10_000)


class CaptureBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes, self.database = sizes, postgres.ensure(settings)

    def backlog(self) -> None:
        rates = {}
        for kind, made in (("json", plain), ("debezium", envelopes)):
            topic = self.topic(f"backlog-{kind}")
            count = self.sizes.records
            load.produce(self.client, topic, made(count, self.sizes.users), count)
            plan = self.plan(topic, f"backlog-{kind}", once=True, kind=kind, batch_time=None)
            rates[kind] = self.steady(f"backlog of {kind}", self.finished("capture_ours", plan))
        ratio = rates["debezium"] / rates["json"]
        self.report.at_least("backlog of envelopes, of plain JSON: events/s", 0.5, ratio)

    def captured(self) -> None:
        """A capture of its own for both: first all rows, then changes of some of them."""
        table = f"{self.run}_users"
        capturer = OwnCapturer(self.settings, self.run, self.database)
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(TABLE.format(table))
            connection.execute(FILLED.format(table, self.sizes.rows))
            try:
                self._snapshot(capturer, table)
                self._latency(connection, table)
            finally:
                capturer.remove()
                connection.execute(f"DROP TABLE {table}")

    def _snapshot(self, capturer: OwnCapturer, table: str) -> None:
        begun_at = time.monotonic()
        capturer.ensure([table])
        with Progress(transient=True, console=self.console) as progress:
            task = progress.add_task("snapshot", total=self.sizes.rows)

            def loaded() -> bool:
                [state] = capturer.state().tables
                progress.update(task, completed=state.rows)
                if state.error:
                    raise JobError("the capture failed", got=state.error)
                return state.loaded

            _wait(loaded, "the snapshot")
        seconds = time.monotonic() - begun_at
        self.report.figures["snapshot: rows"] = self.sizes.rows
        self.report.figures["snapshot: seconds"] = round(seconds, 1)
        scaled = seconds * 1_000_000 / self.sizes.rows
        self.report.at_most("snapshot of 1 million rows, seconds", 180, scaled)

    def _latency(self, connection: psycopg.Connection, table: str) -> None:
        view = self.folder / "view.db"
        plan = self.plan(
            table, "captured", once=False, kind="captured", batch_time="5 seconds", table=table,
            database=self.database, capture=self.run, view=str(view),
        )  # fmt: skip
        process = self.process("capture_ours", plan)
        try:
            self._in_step(process, plan, view)
            found = self._watched(connection, table, view)
            self.stop(process, plan)
        finally:
            process.kill()
        p50, p95 = statistics.median(found), statistics.quantiles(found, n=20)[-1]
        self.report.figures["latency: changes that were seen"] = len(found)
        self.report.figures["latency: changes/s"] = self.sizes.per_second
        self.report.at_most("commit to view, p50 in seconds", 2, p50)
        self.report.at_most("commit to view, p95 in seconds", 4, p95)

    def _in_step(self, process: subprocess.Popen[bytes], plan: Plan, view: Path) -> None:
        """Waits until the view has every row of the snapshot."""

        def filled() -> bool:
            if process.poll() is not None:
                raise self.failed(plan)
            return bool(batches_of(plan)) and _count(view) == self.sizes.rows

        _wait(filled, "the view")

    def _watched(self, connection: psycopg.Connection, table: str, view: Path) -> list[float]:
        """Seconds from commit to view, of each change."""
        changes = Changes(self.sizes)
        found: list[float] = []
        with closing(sqlite3.connect(f"file:{view}?mode=ro", uri=True)) as reader:
            before = reader.execute("SELECT max(_version) FROM users").fetchone()[0]
            while changes.waiting or not changes.over:
                for ids in changes.due():
                    connection.execute(CHANGED.format(table), (ids,))
                    changes.committed(ids)
                rows = reader.execute(SEEN, (json.dumps(list(changes.waiting)), before)).fetchall()
                found += changes.visible([row[0] for row in rows])
                if changes.quiet_for > PATIENCE / 3:
                    raise JobError("changes do not arrive", got=f"{len(changes.waiting)} wait")
                time.sleep(LOOK)
        return found


class Changes:
    """Which rows change when. A row changes once, so that what is seen of it is that change."""

    def __init__(self, sizes: Sizes) -> None:
        self.total = sizes.per_second * sizes.seconds
        self.per_commit = sizes.per_second // COMMITS
        chosen = random.Random(1)
        self.ids = chosen.sample(range(1, sizes.rows + 1), min(self.total, sizes.rows))
        self.begun_at = self.moved_at = time.monotonic()
        self.next = 0
        self.waiting: dict[int, float] = {}

    @property
    def over(self) -> bool:
        return self.next >= len(self.ids)

    @property
    def quiet_for(self) -> float:
        return time.monotonic() - self.moved_at

    def due(self) -> Iterator[list[int]]:
        """The transactions whose time has come."""
        while not self.over:
            at = self.begun_at + self.next / self.per_commit / COMMITS
            if time.monotonic() < at:
                return
            yield self.ids[self.next : self.next + self.per_commit]
            self.next += self.per_commit

    def committed(self, ids: list[int]) -> None:
        now = time.monotonic()
        self.waiting |= dict.fromkeys(ids, now)

    def visible(self, ids: list[int]) -> list[float]:
        now = time.monotonic()
        found = [now - self.waiting.pop(each) for each in ids if each in self.waiting]
        self.moved_at = now if found else self.moved_at
        return found


def _count(view: Path) -> int:
    if not view.exists():
        return 0
    with closing(sqlite3.connect(f"file:{view}?mode=ro", uri=True)) as reader:
        try:
            return int(reader.execute("SELECT count(*) FROM users").fetchone()[0])
        except sqlite3.OperationalError:  # the table is not made yet
            return 0


def _wait(done: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > give_up_at:
            raise JobError(f"{what} is not complete after {PATIENCE:.0f} s")
        time.sleep(0.2)


def _row(number: int, users: int, chosen: random.Random) -> dict[str, object]:
    return {
        "id": chosen.randrange(users),
        "name": f"user {number}",
        "country": f"country {number % 200}",
        "credit": f"{number / 100:.2f}",
        "seen": f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
    }


def envelopes(count: int, users: int) -> Iterator[bytes]:
    """Changes of random rows, as Debezium writes them without the schema part."""
    chosen = random.Random(1)
    for number in range(count):
        source = {
            "version": "3.7.0.Final", "connector": "postgresql", "name": "bench",
            "ts_ms": 1_767_225_600_000 + number, "snapshot": "false", "db": "postgres",
            "schema": "public", "table": "users", "txId": number, "lsn": 100_000 + number,
            "ts_us": 1_767_225_600_000_000 + 1000 * number,
        }  # fmt: skip
        row = _row(number, users, chosen)
        yield json.dumps({"before": None, "after": row, "source": source, "op": "u"}).encode()


def plain(count: int, users: int) -> Iterator[bytes]:
    """The same rows as plain JSON, with what makes them as long."""
    chosen = random.Random(1)
    sizes = map(len, envelopes(count, users))
    for number, size in enumerate(sizes):
        row = _row(number, users, chosen)
        bare = len(json.dumps({**row, "more": ""}))
        yield json.dumps({**row, "more": "x" * (size - bare)}).encode()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = CaptureBench(settings, sizes, Path(folder))
        run.captured()
        run.backlog()
        return run.report
