"""A database under writers, captured while everything is killed; at the end topics equal tables.

    python tests/chaos_capture.py --changes 50000 --seed 7

Writers insert, update, delete, change keys and truncate; a column is added in the middle. The
capturer, PostgreSQL, the broker and a program that keeps copies (in SQLite, PostgreSQL and a search
index) are killed and restarted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from capturing import Source
from riverrun import config
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import kafka, ports, postgres, process
from riverrun.errors import RiverrunError
from riverrun.search import Index
from running import COMMAND, Run

Tell = Callable[[str], None]
ACCOUNTS = "id int PRIMARY KEY, owner text, cents bigint NOT NULL, note text"
NOTES = (
    "place text, number int, body text, at timestamptz DEFAULT now(), PRIMARY KEY (place, number)"
)
PROGRAM = """
import riverrun as rr
app = rr.App("copies", pages=2)
app.capture("chaos.accounts", name="chaos", schema={schema!r}, key="id").to(
    rr.sinks.sqlite({file!r}, "accounts"),
    rr.sinks.postgres("accounts"),
    rr.sinks.search_index("accounts", text=["owner", "note"]))
"""
SCHEMA = "id bigint, owner string, cents bigint, note string"
ROWS = "SELECT id, owner, cents, note FROM {}accounts"
COPIES = ("sqlite", "postgres", "search")


class Writer(threading.Thread):
    """Changes rows until so many changes are made. What a broken connection has left undone may
    have been done: the database alone knows."""

    def __init__(self, chaos: ChaosCapture, seed: int) -> None:
        super().__init__(daemon=True)
        self.chaos, self.dice = chaos, random.Random(seed)
        self.connection: psycopg.Connection[Any] | None = None

    def run(self) -> None:
        while not self.chaos.enough():
            try:
                if self.connection is None or self.connection.closed:
                    self.connection = psycopg.connect(self.chaos.url())
                with self.connection.transaction():
                    made = sum(self.change() for _ in range(self.dice.choice([1, 1, 2, 5, 40])))
                self.chaos.count(made)
            except psycopg.errors.IntegrityError:
                continue  # somebody was quicker
            except psycopg.Error:
                with suppress(psycopg.Error):
                    if self.connection is not None:
                        self.connection.close()
                self.connection = None
                time.sleep(0.2)
        if self.connection is not None:
            self.connection.close()

    def change(self) -> int:
        assert self.connection is not None
        return self.connection.execute(*self.statement()).rowcount

    def statement(self) -> tuple[str, tuple[object, ...]]:
        one, other = self.dice.randrange(400), self.dice.randrange(400)
        long = "".join(self.dice.choices("abcdefghij", k=3000))
        roll = self.dice.random()
        if roll < 0.35:
            put = "INSERT INTO chaos.accounts VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
            return f"{put} SET cents = excluded.cents", (one, f"o{other}", other, long)
        if roll < 0.55:
            return "UPDATE chaos.accounts SET cents = cents + 1 WHERE id = %s", (one,)
        if roll < 0.63:
            return "DELETE FROM chaos.accounts WHERE id = %s", (one,)
        if roll < 0.73:
            free = "NOT EXISTS (SELECT FROM chaos.accounts WHERE id = %s)"
            return f"UPDATE chaos.accounts SET id = %s WHERE id = %s AND {free}", (
                other,
                one,
                other,
            )
        if roll < 0.9:
            put = "INSERT INTO chaos.notes (place, number, body) VALUES (%s, %s, %s)"
            return f"{put} ON CONFLICT DO NOTHING", (f"place {one % 7}", other, long)
        if roll < 0.999:
            return "DELETE FROM chaos.notes WHERE number = %s", (one,)
        return "TRUNCATE chaos.notes", ()


class ChaosCapture:
    """The servers, the writers, and the faults."""

    def __init__(self, settings: Settings, dice: random.Random, tell: Tell) -> None:
        self.settings, self.dice, self.tell = settings, dice, tell
        self.faults: Counter[str] = Counter()
        self.made, self.wanted = 0, 0
        self.lock = threading.Lock()
        self.writers: list[Writer] = []
        self.program: Path | None = None
        self.run: Run | None = None

    def url(self) -> str:
        found = postgres.status(self.settings)
        if found is None:
            raise psycopg.OperationalError("the server is down")
        return found.url

    def start(self, rows: int) -> Source:
        for server in (postgres, kafka):
            if not server.running(self.settings):
                server.up(self.settings, port=ports.any_free())
        capture = OwnCapturer(self.settings, "chaos")
        self.source = Source(self.url(), "chaos", kafka.client(self.settings), capture)
        self.source.execute("CREATE SCHEMA chaos")
        self.source.execute(f"CREATE TABLE @accounts ({ACCOUNTS})")
        self.source.execute(f"CREATE TABLE @notes ({NOTES})")
        self.source.execute(
            "INSERT INTO @notes SELECT 'first', n, repeat('x', 200), now() "
            f"FROM generate_series(1, {rows}) AS n"
        )
        return self.source

    def write(self, changes: int, writers: int) -> None:
        self.wanted = changes
        self.writers = [Writer(self, self.dice.randrange(10**6)) for _ in range(writers)]
        for writer in self.writers:
            writer.start()

    def count(self, made: int) -> None:
        with self.lock:
            self.made += made

    def enough(self) -> bool:
        return self.made >= self.wanted

    def fault(self, name: str) -> None:
        self.tell(f"{name} after {self.made:,} changes")
        getattr(self, name)()
        self.faults[name] += 1

    def capturer_killed(self) -> None:
        capture = self.source.capture
        if (found := capture.process()) is not None:
            os.kill(found.pid, signal.SIGKILL)
            while process.alive(found.pid):
                time.sleep(0.01)
        capture.ensure(["chaos.accounts"])

    def zombie(self) -> None:
        """Frozen until another has gone on in its place; it is fenced."""
        capture = self.source.capture
        self.source.until(lambda state: state.doing == "streaming")
        found = capture.process()
        assert found is not None
        found.suspend()
        (capture.files.folder / "running").unlink()  # the lock of a machine that is not here
        other = capture.files.log.with_suffix(".other.log")
        capture.files.note_pid(process.spawn(capture.files.command, output=other))
        time.sleep(5)
        with suppress(ProcessLookupError):
            found.resume()
        found.wait(60)

    def database_restarted(self) -> None:
        postgres.restart(self.settings)

    def database_killed(self) -> None:
        server = postgres.status(self.settings)
        assert server is not None
        os.kill(server.pid, signal.SIGKILL)
        while process.alive(server.pid):
            time.sleep(0.01)
        postgres.up(self.settings)

    def broker_restarted(self) -> None:
        kafka.down(self.settings)
        kafka.up(self.settings)

    def program_killed(self) -> None:
        if self.program is not None:
            if self.run is not None:
                self.run.kill()
            self.run = Run(self.program, home=self.settings.home)

    def column_added(self) -> None:
        while True:
            with suppress(psycopg.Error), psycopg.connect(self.url(), autocommit=True) as own:
                own.execute("ALTER TABLE chaos.accounts ADD COLUMN IF NOT EXISTS extra int")
                own.execute("ALTER TABLE chaos.notes DROP COLUMN IF EXISTS at")
                return
            time.sleep(0.2)

    def finish(self) -> dict[str, Any]:
        for writer in self.writers:
            writer.join(120)
            assert not writer.is_alive()
        self.source.connection.close()
        self.source.connection = psycopg.connect(self.url(), autocommit=True)
        if self.source.capture.running() is None:
            self.source.capture.ensure(["chaos.accounts"])
        self.source.loaded()
        found = {name: self.differences(name) for name in ("accounts", "notes")}
        return {
            "changes": self.made,
            "faults": dict(self.faults),
            "rows": {name: len(self.source.rows(name)) for name in found},
            "rows that differ": found,
            "transactions that are not whole": self.broken(),
            **self.copied(),
        }

    def differences(self, table: str) -> int:
        give_up = time.monotonic() + 120
        while True:
            topic, rows = _without_new(self.source.table(table)), self.source.rows(table)
            rows = _without_new(rows)
            wrong = sum(topic.get(key) != rows.get(key) for key in topic | rows)
            if not wrong or time.monotonic() > give_up:
                return wrong
            time.sleep(0.5)

    def broken(self) -> int:
        """Transactions whose END does not count what topics have: each change is there once."""
        seen: Counter[str] = Counter()
        for table in ("accounts", "notes"):
            for _, _, value in self.source.records(self.source.topic(table)):
                if value is not None and value["transaction"] is not None:
                    seen[value["transaction"]["id"]] += 1
        told: Counter[str] = Counter()
        ends = Counter[str]()
        for _, _, value in self.source.records("chaos.transaction"):
            assert value is not None
            if value["status"] == "END":
                told[value["id"]] += value["event_count"]
                ends[value["id"]] += 1
        twice = sum(count > 1 for count in ends.values())
        return twice + sum(seen[each] != told[each] for each in seen | told)

    def copied(self) -> dict[str, Any]:
        """How many rows of each copy are not those of the table; and what `verify` says of it."""
        if self.program is None or self.run is None:
            return {}
        give_up = time.monotonic() + 300
        while True:
            wanted = set(self.source.execute(ROWS.format("@")))
            found = {copy: len(wanted ^ self.rows_of(copy)) for copy in COPIES}
            if not any(found.values()) or time.monotonic() > give_up:
                break
            if self.run.process.poll() is not None:
                self.tell(f"the program has ended: {self.run.error()[-3000:]}")
                self.faults["program ended by itself"] += 1
                self.program_killed()
            time.sleep(1)
        return {"copies that differ": found, "verified": {c: self.verified(c) for c in COPIES}}

    def rows_of(self, copy: str) -> set[tuple[Any, ...]]:
        assert self.program is not None
        with suppress(sqlite3.OperationalError, psycopg.Error, RiverrunError):  # not made yet
            if copy == "postgres":
                return set(self.source.execute(ROWS.format("public.")))
            if copy == "sqlite":
                with closing(sqlite3.connect(self.program.with_suffix(".db"))) as own:
                    return set(own.execute(ROWS.format("")))
            index = Index(self.settings.home / "indexes" / "accounts")
            return {tuple(row.values()) for row in index.rows()}
        return set()

    def verified(self, copy: str) -> str:
        assert self.program is not None
        sink = {"sqlite": "sqlite:copies.db:accounts"}.get(copy, f"{copy}:accounts")
        found = subprocess.run(
            [*COMMAND, "verify", str(self.program), sink],
            env={**os.environ, "RIVERRUN_HOME": str(self.settings.home)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return (found.stdout + found.stderr).strip()

    def stop(self) -> None:
        self.wanted = 0
        if self.run is not None:
            self.run.kill()
        self.source.connection.close()
        self.source.capture.stop()
        postgres.down(self.settings)
        kafka.down(self.settings)


def _without_new(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows without columns that come or go: a row that did not change since tells nothing."""
    late = ("extra", "at")
    return {
        key: {name: cell for name, cell in row.items() if name not in late}
        for key, row in rows.items()
    }


FAULTS = [
    "capturer_killed", "capturer_killed", "capturer_killed", "database_restarted",
    "database_killed", "broker_restarted", "program_killed", "zombie",
]  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--changes", type=int, default=50_000)
    options.add_argument("--writers", type=int, default=10)
    options.add_argument("--rows", type=int, default=50_000, help="of the first snapshot")
    options.add_argument("--without-program", action="store_true", help="no Spark")
    options.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    given = options.parse_args()
    dice = random.Random(given.seed)

    def tell(line: str) -> None:
        print(f"{time.strftime('%T')} {line}", file=sys.stderr, flush=True)

    tell(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="riverrun-capture-") as folder:
        settings = config.load(start=Path(folder), environ={"RIVERRUN_HOME": f"{folder}/home"})
        chaos = ChaosCapture(settings, dice, tell)
        try:
            chaos.start(given.rows)
            if not given.without_program:
                chaos.program = Path(folder) / "copies.py"
                file = str(chaos.program.with_suffix(".db"))
                chaos.program.write_text(PROGRAM.format(schema=SCHEMA, file=file))
            found = wild(chaos, given.changes, given.writers)
        finally:
            chaos.stop()
    print(json.dumps(found, indent=1))
    wrong = sum(found["rows that differ"].values()) + found["transactions that are not whole"]
    wrong += sum(found.get("copies that differ", {}).values())
    verified = all("as the log has them" in text for text in found.get("verified", {}).values())
    return int(bool(wrong) or not verified)


def wild(chaos: ChaosCapture, changes: int, writers: int) -> dict[str, Any]:
    """Writers from the start; killed in the first snapshot, then all the time."""
    chaos.write(changes, writers)
    chaos.source.ensure("accounts", "notes")
    chaos.source.until(lambda state: state.doing == "snapshot" or bool(state.position))
    chaos.fault("capturer_killed")
    chaos.fault("program_killed")
    altered = False
    while not chaos.enough():
        if not altered and chaos.made > changes / 2:
            chaos.fault("column_added")
            altered = True
        time.sleep(chaos.dice.uniform(0.5, 6))
        chaos.fault(chaos.dice.choice(FAULTS))
        if chaos.dice.random() < 0.2:
            chaos.tell("a further snapshot")
            chaos.source.capture.snapshot("chaos.notes")
    return chaos.finish()


if __name__ == "__main__":
    sys.exit(main())
