"""Capture by real Debezium on real Kafka Connect: what a topic holds is what the database has."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

import mariadb
import riverrun as rr
from riverrun.capture.capturer import CaptureState
from riverrun.capture.connect import ConnectCapturer
from riverrun.capture.known import capture_named
from riverrun.capture.mariadb import MariaDb
from riverrun.capture.rest import Rest
from riverrun.config import Settings
from riverrun.embedded import connect, kafka, postgres
from riverrun.kafka.browse import Browser
from riverrun.testing import Driver

PATIENCE = 180.0
SECRET = "s3cret:/#1"
TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, name text, amount numeric(12,2), body text);
ALTER TABLE accounts REPLICA IDENTITY FULL; -- so that the log has every value
CREATE TABLE extra (id int PRIMARY KEY, word text);
INSERT INTO accounts SELECT g, 'n' || g, g / 7.0, NULL FROM generate_series(1, 500) g;
INSERT INTO extra SELECT g, 'w' || g FROM generate_series(1, 300) g;
"""
INSERT = "INSERT INTO accounts VALUES (%(n)s, 'new', 1.1, %(b)s) ON CONFLICT DO NOTHING"
UPDATE = "UPDATE accounts SET amount = amount + 0.05 WHERE id = %(n)s"
DELETE = "DELETE FROM accounts WHERE id = %(n)s"
MOVE = (
    "UPDATE accounts SET id = %(m)s WHERE id = %(n)s"
    " AND NOT EXISTS (SELECT FROM accounts WHERE id = %(m)s)"
)


@pytest.fixture(scope="module")
def settings(broker_settings: Settings) -> Iterator[Settings]:
    yield broker_settings
    connect.down(broker_settings)


@pytest.fixture
def database(postgres_settings: Settings) -> Iterator[str]:
    """The address of an empty database, with a password that is nobody's business."""
    server, name = postgres.ensure(postgres_settings), f"d{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    secret = quote(SECRET, safe="")
    yield server.replace("postgres@", f"postgres:{secret}@").rpartition("/")[0] + f"/{name}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


Capturing = Callable[[str, str], ConnectCapturer]


@pytest.fixture
def capturing(settings: Settings) -> Iterator[Capturing]:
    """Captures by name and address. What a test leaves behind would hold its database: name this
    fixture after that of the database, so that it ends first."""
    made: list[ConnectCapturer] = []

    def capture(name: str, database: str) -> ConnectCapturer:
        made.append(ConnectCapturer(settings, name, database))
        return made[-1]

    yield capture
    for each in made:
        if each.files.wish() is not None:
            each.remove()


def until(
    capture: ConnectCapturer, done: Callable[[CaptureState], bool], among: tuple[str, ...] = ()
) -> CaptureState:
    give_up_at = time.monotonic() + PATIENCE
    while not done(state := capture.state()):
        assert time.monotonic() < give_up_at, state
        assert not among or state.doing in among, state
        time.sleep(0.3)
    return state


def loaded(state: CaptureState) -> bool:
    return all(table.loaded for table in state.tables)


Record = tuple[str | None, str | None]


def records(client: dict[str, str], topic: str) -> list[Record]:
    """Keys and values. That a table was emptied has no key, that a row was deleted no value."""
    with Browser(client, topic) as browser:
        found = sorted(browser.read(browser.earliest), key=lambda m: (m.partition(), m.offset()))
    return [(m.key() and m.key().decode(), m.value() and m.value().decode()) for m in found]


def table_of(topic: str, schema: str, sent: list[Record], dead: Sequence[str] = ()) -> dict:
    """What riverrun's own format makes of a topic's records; `dead` has the keys of those that
    are dead letters."""
    app = rr.App("copy", pages=3)
    app.table(topic, schema=schema, key="id", format="debezium").to("copy")
    driver = Driver(app)
    for key, value in sent:
        driver.send(topic, value, key=key)
    driver.batch()
    letters = [line["value"] for line in driver.outputs["dead"]]
    assert [sent[each["offset"]][0] for each in letters] == list(dead), letters
    found = {}
    for line in driver.outputs["copy"]:
        if line["op"] == "-":
            assert found.pop(line["key"]) == line["value"]
        else:
            found[line["key"]] = line["value"]
    return found


def arrived(client: dict[str, str], topic: str, number: int) -> list[Record]:
    """The topic's records, once the one with this key is there."""
    give_up_at = time.monotonic() + PATIENCE
    while True:
        found = records(client, topic)
        if any(key == json.dumps({"id": number}, separators=(",", ":")) for key, _ in found):
            return found
        assert time.monotonic() < give_up_at, found[-1:]
        time.sleep(0.5)


class Writer(threading.Thread):
    """Changes rows of `accounts` at random until it is told to end."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.over = url, threading.Event()

    def run(self) -> None:
        dice = random.Random(7)
        while not self.over.is_set():
            with suppress(psycopg.OperationalError):  # the server is restarted meanwhile
                self._write(dice)

    def _write(self, dice: random.Random) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not self.over.is_set():
                number, new = dice.randrange(600), dice.randrange(600)
                query = dice.choice([INSERT] * 3 + [UPDATE] * 5 + [DELETE] * 2 + [MOVE])
                body = dice.randbytes(6000).hex() if number % 7 == 0 else None
                connection.execute(query, {"n": number, "m": new, "b": body})
                time.sleep(0.002)


def killed(settings: Settings) -> None:
    """kill -9 of Connect, which is then started again."""
    worker = connect.status(settings)
    os.kill(worker.pid, signal.SIGKILL)
    psutil.Process(worker.pid).wait(10)
    connect.up(settings)


@pytest.mark.broker
def test_the_topics_hold_what_the_database_has_whatever_is_killed(
    settings, postgres_settings, database, capturing
):
    client = kafka.ensure(settings)
    schema = "id bigint, name string, amount decimal(12,2), body string"
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(TABLES)
    capture, writer = capturing("shop", database), Writer(database)
    capture.ensure(["accounts"])
    writer.start()
    try:
        killed(settings)
        state = until(capture, loaded)
        assert (state.doing, state.by, state.slot) == ("streaming", "connect", "riverrun_shop")
        assert SECRET not in str(state)
        assert state.database.startswith("postgresql://postgres@")
        capture.ensure(["accounts", "extra"])
        killed(settings)
        until(capture, loaded)
        postgres.restart(postgres_settings)
        time.sleep(2)
    finally:
        writer.over.set()
        writer.join(10)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("INSERT INTO extra VALUES (9999, 'last')")
        db.execute("INSERT INTO accounts VALUES (9999, 'last', 0, NULL)")
        accounts = db.execute("SELECT id, name, amount::text, body FROM accounts").fetchall()
        extra = db.execute("SELECT id, word FROM extra").fetchall()
    sent = arrived(client, "shop.public.accounts", 9999)
    found = table_of("shop.public.accounts", schema, sent)
    rows = {key: (row["name"], f"{row['amount']:.2f}", row["body"]) for key, row in found.items()}
    assert rows == {number: tuple(rest) for number, *rest in accounts}
    found = table_of(
        "shop.public.extra", "id bigint, word string", arrived(client, "shop.public.extra", 9999)
    )
    assert {key: row["word"] for key, row in found.items()} == dict(extra)
    changes = [json.loads(value) for _, value in sent if value]
    places = [(each["source"]["lsn"], each["op"]) for each in changes if each["op"] in "cud"]
    assert len(places) == len(set(places)) > 100
    config = Rest(connect.status(settings).url).get("connectors", "shop", "config")
    assert config["database.password"].startswith("${file:")
    log = (settings.home / "connect" / "logs" / "connect.log").read_text()
    assert SECRET not in log
    assert isinstance(capture_named(settings, "shop"), ConnectCapturer)
    capture.remove()
    with psycopg.connect(database) as db:
        kept = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        assert db.execute(kept).fetchall() == []
        assert db.execute("SELECT * FROM pg_publication").fetchall() == []
        assert db.execute("SELECT to_regclass('riverrun_shop_signals')").fetchall() == [(None,)]


@pytest.mark.broker
def test_a_large_value_that_the_log_leaves_out_is_asked_for(settings, database, capturing):
    large = [random.Random(each).randbytes(6000).hex() for each in range(3)]
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE TABLE notes (id int PRIMARY KEY, n int, body text)")
        for number, body in enumerate(large):
            db.execute("INSERT INTO notes VALUES (%s, 0, %s)", (number, body))
        capture = capturing("large", database)
        capture.ensure(["notes"])
        until(capture, loaded)
        capture.pause()  # so that all is to be seen when it is asked for
        until(capture, lambda state: state.doing == "paused")
        db.execute("UPDATE notes SET id = id + 10")  # rows that nobody knows under their key
        db.execute("UPDATE notes SET n = 1 WHERE id = 11")
        db.execute("DELETE FROM notes WHERE id = 12")
        db.execute("INSERT INTO notes VALUES (9999, 0, NULL)")
        capture.resume()
    sent = arrived(kafka.client(settings), "large.public.notes", 9999)
    schema = "id bigint, n bigint, body string"
    found = table_of("large.public.notes", schema, sent, dead=['{"id":12}'])
    bodies = {key: (row["n"], row["body"]) for key, row in found.items()}
    assert bodies == {10: (0, large[0]), 11: (1, large[1]), 9999: (0, None)}


@pytest.mark.broker
def test_a_slot_that_was_lost_is_a_clear_failure_and_no_gap(
    settings, database, capturing, riverrun, monkeypatch
):
    monkeypatch.setenv("RIVERRUN_HOME", str(settings.home))
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE TABLE things (id int PRIMARY KEY)")
        db.execute("INSERT INTO things VALUES (1)")
        capture = capturing("lost", database)
        capture.ensure(["things"])
        until(capture, loaded)
        capture.stop()
        db.execute("SELECT pg_drop_replication_slot('riverrun_lost')")
        db.execute("INSERT INTO things VALUES (2)")
        capture.resume()
        state = until(capture, lambda state: state.doing == "failed")
        assert "no longer available" in state.error
    shown = riverrun("capture", "status", "lost")
    assert "lost: failed, by connect, from postgresql://postgres@127.0.0.1" in shown.out
    assert "error: " in shown.out
    assert riverrun("capture", "remove", "lost", "--yes").code == 0
    assert riverrun("capture", "list", "--json").out == "[]\n"


@pytest.fixture
def shop(settings: Settings, tmp_path: Path) -> Iterator[str]:
    """The address of a MariaDB with an empty database."""
    try:
        programs = mariadb.unpacked(settings.cache)
        with mariadb.running(programs, tmp_path / "mariadb") as url:
            yield url
    except mariadb.NoMariaDb as reason:
        pytest.skip(f"no MariaDB: {reason}")


@pytest.mark.broker
def test_tables_of_mariadb_come_through_the_same_door(settings, shop, capturing):
    app = rr.App("copy", pages=2)
    with MariaDb(shop) as db, db.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE users (id int PRIMARY KEY, name varchar(20), n decimal(9,2))")
        cursor.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        rows = [(number, f"n{number}", number / 4) for number in range(100)]
        cursor.executemany("INSERT INTO users VALUES (%s, %s, %s)", rows)
        app.capture("users", database=shop).to("copy")
        [captured] = app.captures
        assert (captured.key, captured.table) == (("id",), "shop.users")
        capture = capturing(captured.name, shop)
        capture.ensure(["users"])
        until(capture, loaded)
        cursor.execute("UPDATE users SET n = n + 0.25, name = 'ä' WHERE id < 10")
        cursor.execute("DELETE FROM users WHERE id BETWEEN 10 AND 19")
        cursor.execute("UPDATE users SET id = 500 WHERE id = 20")
        killed(settings)
        cursor.execute("INSERT INTO orders VALUES (1), (2)")
        capture.ensure(["orders"])
        state = until(capture, loaded)
        assert state.position.startswith("binlog.")
        assert [each.rows for each in state.tables] == [100, 2]
        cursor.execute("TRUNCATE orders")
        cursor.execute("INSERT INTO orders VALUES (9999)")
        cursor.execute("INSERT INTO users VALUES (9999, 'last', 0)")
        cursor.execute("SELECT id, name, n FROM users")
        wanted = {number: (name, n) for number, name, n in cursor.fetchall()}
    client = kafka.client(settings)
    found = table_of("shop.shop.orders", "id bigint", arrived(client, "shop.shop.orders", 9999))
    assert list(found) == [9999]
    sent = arrived(client, "shop.shop.users", 9999)
    found = table_of("shop.shop.users", "id bigint, name string, n decimal(9,2)", sent)
    assert {key: (row["name"], row["n"]) for key, row in found.items()} == wanted
    capture.remove()
