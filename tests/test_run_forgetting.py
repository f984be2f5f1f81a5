"""Forgetting on real Kafka and real Spark: every byte that was written is searched."""

from __future__ import annotations

import base64
import gzip
import json
import runpy
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riverrun as rr
from plain_text import traces
from riverrun import config, private
from riverrun.compiler.shape import shape
from riverrun.control import FORGET, Command, control_topic
from riverrun.forgetting import Keys
from riverrun.forgetting.places import place_of
from riverrun.forgetting.sqlite import SqliteStore
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.kernels.subjects import Subject
from riverrun.runtime import checkpoint
from riverrun.runtime.forgetting.contents import pieces
from riverrun.runtime.forgetting.needles import Hashes, Values, forms
from riverrun.runtime.forgetting.places import Application
from riverrun.runtime.forgetting.rows import delete_rows
from running import Run, produce, records, table

EXAMPLE = Path(__file__).parents[1] / "examples" / "19_shop.py"
ANN = {
    "order_id": "o1", "customer": 42, "name": "Änne Quxbert", "email": "aenne.quxbert@example.org",
    "note": 'ring "twice" \N{BELL}', "city": "Quxhausen an der Aare", "cents": 700,
    "at": "2026-01-01T12:00:00Z",
}  # fmt: skip
BOB = {**ANN, "order_id": "o2", "customer": 7, "name": "Bob Zorn", "email": "bob.zorn@example.org"}
SECRETS = [ANN["name"], ANN["email"], ANN["note"]]


MORE = """
from dataclasses import dataclass, replace

@dataclass(frozen=True)
class Join:
    email: str

@dataclass(frozen=True)
class Joined:
    email: str

@dataclass(frozen=True)
class Member:
    email: str = ""
    def decide(self, command: Join):
        return rr.Rejected(f"{command.email} again") if self.email else Joined(command.email)
    def evolve(self, event: Joined):
        return replace(self, email=event.email)

members = app.aggregate(
    "member", Member, commands="NAME-commands", events="NAME-events",
    personal=rr.personal("email", subject="customer"),
)
members.of(Joined).to(rr.sinks.parquet("FOLDER/joined"))
orders.to(rr.sinks.sqlite("FOLDER/orders.db", "orders"))
orders.to(rr.sinks.search_index("NAME_index", text=["city"]))
"""


def program(folder: Path, name: str, more: str = "") -> Path:
    """The example, under names of its own."""
    file = folder / f"{name}.py"
    text = EXAMPLE.read_text().replace('rr.App("shop")', f'rr.App("{name}")')
    text = text.replace('"orders",\n        schema', f'"{name}-orders",\n        schema')
    for topic in ("shop-labels", "shop-customers", "shop-cities", "shop_customers"):
        text = text.replace(f'"{topic}"', f'"{name}{topic[4:]}"')
    file.write_text(text + more.replace("NAME", name).replace("FOLDER", str(folder)))
    return file


@pytest.mark.spark
@pytest.mark.broker
def test_nothing_of_a_forgotten_customer_can_be_read_anywhere(
    broker, broker_settings, tmp_path, riverrun
):
    name, home = "forgetful", broker_settings.home
    admin.create_topic(broker, f"{name}-orders", partitions=2)
    admin.create_topic(broker, f"{name}-commands", partitions=1)
    joins = {"aggregate": "42", "type": "Join", "data": {"email": ANN["email"]}, "id": "j1"}
    late = {**ANN, "order_id": "late", "at": "2025-01-01T12:00:00Z"}
    with Run(program(tmp_path, name, MORE), home=home) as run:
        broken = json.dumps(ANN)[:-1]
        produce(broker, f"{name}-orders", [ANN, BOB, broken], partitions=2)
        run.until(3)
        produce(broker, f"{name}-orders", [{**BOB, "at": "2026-02-01T00:00:00Z"}] * 2, partitions=2)
        run.until(5)
        produce(broker, f"{name}-orders", [late, {**ANN, "customer": None}])
        produce(broker, f"{name}-commands", [joins, {**joins, "id": "j2"}])
        run.until(9)
        past = riverrun("history", f"{name}.member/42", "--reveal", "--replay-decisions")
        assert (past.code, ANN["email"] in past.out) == (0, True), past.err
        assert "0 of 2 commands would be decided differently\n" in past.out
        assert asked(riverrun, name) == (ANN["email"], None)
        assert records(broker, f"{name}.cities.late")
        assert len(records(broker, f"{name}.dead")) == 2
        shown = riverrun("tail", f"{name}-labels", "--json", "--reveal", name).out
        assert f"{ANN['name']}, {ANN['city']}" in [
            json.loads(e)["value"]["label"] for e in shown.splitlines()
        ]
        seen = riverrun("get", f"{name}_customers", "42", "--json", "--reveal")
        assert json.loads(seen.out)["row"]["email"] == ANN["email"]
        assert traces(home, name, SECRETS) == traces(tmp_path, name, SECRETS) == []
        # what is not personal is found everywhere, so what is would be
        open_ = " ".join(
            [*traces(home, name, [ANN["city"]]), *traces(tmp_path, name, [ANN["city"]])]
        )
        places = ("/state/", "orders.db", "/data/forgetful-cities-", "blockmgr-")
        assert [each for each in places if each not in open_] == [], open_
        ended = riverrun("forget", "customer/42", "--app", name, "--json")
        assert ended.out, ended.err
        report = json.loads(ended.out)
        assert (ended.code, report["key"], report["readable"]) == (0, "destroyed", []), report
        assert traces(home, name, SECRETS) == traces(tmp_path, name, SECRETS) == []
        assert table(broker, f"{name}-customers").keys() == {"7"}
        assert report["deleted"] == [f"view {name}_customers, changes kept for 1 hour"]
        assert riverrun("get", f"{name}_customers", "42").code == 1
        assert report["not_forgotten"] == {
            f"{name}-{topic}": "for ever" for topic in ("commands", "orders")
        }
        places = {each["place"].partition(":")[0] for each in report["looked_at"]}
        assert {f"topic {name}.dead", f"topic {name}-events", "checkpoint and state"} <= places
        assert {"keys", "views", "indexes", "broker", "output"} <= places
        assert report["values"] >= 20
        assert report["not_looked_at"] == []
        produce(broker, f"{name}-orders", [{**ANN, "order_id": "after"}])
        run.until(10)
        past = riverrun("history", f"{name}.member/42", "--reveal", "--replay-decisions")
        assert (past.code, "(forgotten: email)" in past.out) == (0, True), past.out
        assert "0 of 2 commands would be decided differently; 2 cannot be compared" in past.out
        assert asked(riverrun, name) == (None, [["state"]])
    assert traces(home, name, SECRETS) == []
    assert_unreadable(name, riverrun)


def asked(riverrun, name):
    """The address that the running job gives of a member, and what it marks as forgotten."""
    sql = "SELECT state FROM member WHERE aggregate = '42'"
    sealed = riverrun("ask", f"{name}.member", sql, "--json")
    assert "rrp1:" in json.loads(sealed.out)["rows"][0]["state"], sealed.err
    found = json.loads(riverrun("ask", f"{name}.member", sql, "--json", "--reveal").out)
    [row] = found["rows"]
    return json.loads(row["state"])["email"], found.get("forgotten")


def assert_unreadable(name, riverrun):
    """What was written before is null with a mark, what came after is not there."""
    lines = riverrun("tail", f"{name}-labels", "--json", "--reveal", name).out.splitlines()
    labels = {line["value"]["order_id"]: line for line in map(json.loads, lines)}
    assert labels["o1"]["value"] == {
        "order_id": "o1", "customer": 42, "label": None, "courier": None, "provider": "example.org",
    }  # fmt: skip
    assert labels["o1"]["forgotten"] == ["label", "courier"]
    assert labels["o2"]["value"]["label"] == f"Bob Zorn, {ANN['city']}"
    assert "after" not in labels  # nobody can tell whether there was an @ in the address
    seen = riverrun("get", f"{name}_customers", "42", "--reveal")
    assert "(forgotten)" in seen.out


def known_application(broker, settings, name: str, tmp_path: Path) -> Keys:
    """An application that has run, as far as `forget` can tell: without the time that it takes."""
    app = runpy.run_path(str(program(tmp_path, name)))["app"]
    folder = settings.checkpoint_of(name)
    checkpoint.note(private.folder(folder), shape(app.program()))
    keys = Keys(place_of(settings, name).store())
    compacted = {"cleanup.policy": "compact"}
    admin.create_topic(broker, f"{name}-orders", partitions=1)
    admin.create_topic(broker, f"{name}-labels", partitions=1)
    admin.create_topic(broker, f"{name}-customers", partitions=1, config=compacted)
    sender = Sender(broker, f"{name}-customers")
    for number in range(10):
        order = {**ANN, "customer": number, "name": f"Nobody Number{number}"}
        produce(broker, f"{name}-orders", [{**order, "email": None, "note": None}])
        [sealed] = keys.seal("customer", [(str(number), f"Someone Else{number}")])
        sender.send(
            Record(json.dumps({"customer": number, "name": sealed}).encode(), b"%d" % number)
        )
    sender.flush()
    return keys


KILLED = """
import os, sys
from riverrun import config
from riverrun.runtime.forgetting.forget import forget
name, *steps = sys.argv[1:]
for number, last in enumerate(steps):
    if os.fork() == 0:
        def step(text):
            if text == last:
                os.kill(os.getpid(), 9)
        forget(config.load(), name, (f"customer/{number}", None), step=step)
    assert os.wait()[1] == 9, last
"""
STEPS = [
    "collect what is to be looked for", "destroy the key", "write tombstones",
    "look for what can be read", "end",
]  # fmt: skip


@pytest.mark.broker
def test_a_run_that_is_killed_between_two_steps_is_finished_by_the_next(
    broker, broker_settings, tmp_path, riverrun
):
    name = "halfforgotten"
    keys = known_application(broker, broker_settings, name, tmp_path)
    log = broker_settings.run_of(name)
    private.folder(log)
    (log / "spark.log").write_text("Someone Else2 was here")
    subprocess.run([sys.executable, "-c", KILLED, name, *STEPS], check=True)
    for number, step in enumerate(STEPS):
        known = keys.forgotten(keys.subject("customer", str(number)))
        assert known == (STEPS.index(step) > 1)
        ended = riverrun("forget", f"customer/{number}", "--app", name, "--json")
        report = json.loads(ended.out)
        assert keys.forgotten(keys.subject("customer", str(number)))
        assert report["tombstones"] == [f"{name}-customers"]
        # what a killed run knew is found after the key is gone, by what it has noted
        assert report["readable"] == (
            [f"logs, status, shuffle and spill: {log}"] if number == 2 else []
        )
        assert report["values"] > len(forms(f"Nobody Number{number}"))
        assert ended.code == (number == 2)
    # what was found is looked for until it is gone, by hashes: nobody knows it any more
    assert riverrun("forget", "customer/2", "--app", name).code == 1
    (log / "spark.log").write_text("nobody was here")
    assert riverrun("forget", "customer/2", "--app", name).code == 0
    assert list((log / "forgetting").iterdir()) == []
    assert table(broker, f"{name}-customers").keys() == {"5", "6", "7", "8", "9"}
    again = riverrun("forget", "0", "--app", name)
    assert "was destroyed before" in again.out
    assert f"not forgotten: {name}-orders, which others write, keeps it for ever" in again.out


@pytest.mark.broker
def test_a_key_that_a_kill_has_left_in_the_log_of_its_store_goes_with_the_next_run(
    broker, broker_settings, tmp_path, riverrun, monkeypatch
):
    name = "leftinlog"
    keys = known_application(broker, broker_settings, name, tmp_path)
    number, file = keys.subject("customer", "3"), broker_settings.home / "keys" / f"{name}.db"
    [key] = keys.store.find([number]).values()
    with monkeypatch.context() as killed:
        killed.setattr(SqliteStore, "_empty_log", lambda store: None)
        keys.forget(number)

    def holds_key() -> list[Path]:
        # by another process: with a file that is closed here, SQLite's locks on it would end
        files = file.parent.glob(f"{name}.db*")
        return [each for each in files if key in subprocess.check_output(["cat", each])]

    assert keys.forgotten(number)
    assert holds_key()
    assert riverrun("forget", "customer/3", "--app", name).code == 0
    assert holds_key() == []


@pytest.mark.broker
def test_a_batch_that_is_not_committed_keeps_its_keys(broker, broker_settings, tmp_path, riverrun):
    name = "notcommitted"
    keys = known_application(broker, broker_settings, name, tmp_path)
    offsets = broker_settings.checkpoint_of(name) / "query" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    ended = riverrun("forget", "customer/3", "--app", name)
    assert (ended.code, "the key is not destroyed yet" in ended.out) == (1, True)
    assert "which is running" not in ended.err
    assert not keys.forgotten(keys.subject("customer", "3"))
    [command] = ControlLog(broker, name).commands(0, 1)
    assert (command.kind, command.target) == (FORGET, keys.subject("customer", "3").hex())
    assert "Else3" not in json.dumps(records(broker, control_topic(name)))
    wrong = riverrun("forget", "person/3", "--app", name, "--subject", "person")
    assert (wrong.code, "there is customer" in wrong.err) == (2, True)


def test_rows_of_databases_that_are_keyed_by_the_subject_go(tmp_path, postgres):
    app = rr.App("rows")
    people = app.stream(
        "people", schema="customer bigint, email string",
        personal=rr.personal("email", subject="customer"),
    )  # fmt: skip
    rows = people.to_table("customer")
    file = tmp_path / "people.db"
    rows.to(rr.sinks.sqlite(file, "people"), rr.sinks.postgres("people"), rr.sinks.view("people"))
    own = config.load().override(postgres=postgres)
    known = Application("rows", own, shape(app.program()))
    ann = Subject("customer", "42"), bytes(16)
    assert delete_rows(known, *ann) == []  # none of them is there yet
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE people (customer BIGINT, email TEXT)")
        connection.execute("INSERT INTO people VALUES (42, 'x'), (7, 'y')")
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("CREATE TABLE people (customer BIGINT, email TEXT)")
        server.execute("INSERT INTO people VALUES (42, 'x'), (7, 'y')")
        assert len(delete_rows(known, *ann)) == 2
        assert server.execute("SELECT customer FROM people").fetchall() == [(7,)]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT customer FROM people").fetchall() == [(7,)]


def test_hashes_find_what_values_find(tmp_path):
    values = Values(["ann@example.org", "Änne", "x", 'say "hi"'])
    left = Hashes.read(Hashes.of(values).text())
    assert (values.short, left.short, left.count()) == (1, 1, values.count())
    assert "ann" not in Hashes.of(values).text()
    for form in values.forms:
        assert left.inside(b"." * 99 + form + b".")
        assert values.inside(form)
    for other in (b"", b"ann@example.or", b"anna@example.org" * 3, bytes(range(256)) * 9):
        assert not left.inside(other)
    for number in range(3):
        inside = base64.b64encode(b"." * number + "Änne und ann@example.org".encode() + b"!")
        assert left.inside(inside)
        assert values.inside(inside)


def test_packed_files_are_looked_into(tmp_path):
    text = b"ann@example.org " * 40
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", text)
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.zip", "a.zip")
    (tmp_path / "c.gz").write_bytes(gzip.compress(text))
    block = pa.Codec("lz4_raw").compress(text).to_pybytes()
    head = struct.pack("<8sBIII", b"LZ4Block", 0x26, len(block), len(text), 0)
    (tmp_path / "d.lz4").write_bytes(head + block)
    pq.write_table(pa.table({"x": [text.decode()], "n": [1]}), tmp_path / "e.parquet")
    (tmp_path / "f.zip").write_bytes(b"PK\x03\x04 is none")
    values = Values(["ann@example.org"])
    found = [
        path.name
        for path in sorted(tmp_path.iterdir())
        if any(values.inside(data) for data in pieces(path, values.longest))
    ]
    assert found == ["a.zip", "b.tar.gz", "c.gz", "d.lz4", "e.parquet"]


@pytest.mark.spark
@pytest.mark.broker
def test_a_command_that_nobody_waits_for_takes_effect_after_its_batch(
    broker, broker_settings, tmp_path, once
):
    name = "laterforgotten"
    file = program(tmp_path, name)
    admin.create_topic(broker, f"{name}-orders", partitions=1)
    produce(broker, f"{name}-orders", [ANN, BOB])
    keys = Keys(place_of(broker_settings, name).store())
    ControlLog(broker, name).send(Command(0, FORGET, keys.subject("customer", "42").hex()))
    once(file)
    labels = [json.loads(value) for _, value in records(broker, f"{name}-labels")]
    revealed = keys.reveal(labels)
    assert revealed.forgotten == ["[0].label", "[0].courier"]
    assert len(labels[0]["label"]) > len("rrp1:") + 22  # its batch had the key
    assert revealed.value[1]["label"] == f"Bob Zorn, {ANN['city']}"
