"""`riverrun forget` of people who are there, who are not, and whose name is sealed."""

from __future__ import annotations

import json
import runpy
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import riverrun as rr
from riverrun import config, private
from riverrun.compiler.shape import shape
from riverrun.errors import ConfigError
from riverrun.forgetting import Keys
from riverrun.forgetting.places import place_of
from riverrun.forgetting.sqlite import SqliteStore
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.runtime import checkpoint
from riverrun.runtime.forgetting.forget import forget
from riverrun.runtime.forgetting.stores import note_store
from riverrun.runtime.target import target
from running import table

PERSONAL = rr.personal("email", subject="reader", by="email")


def newsletter(name, folder, settings, broker, *, by="email"):
    """An application that has run, as far as `forget` can tell, and its keys."""
    app = rr.App(name)
    mine = PERSONAL if by == "email" else rr.personal("email", subject="reader", by=by)
    readers = app.stream(f"{name}-in", schema="email string, id bigint", personal=mine)
    rows = readers.to_table(by)
    rows.to(f"{name}-readers", rr.sinks.sqlite(folder / "readers.db", "readers"))
    checkpoint.note(private.folder(settings.checkpoint_of(name)), shape(app.program()))
    admin.create_topic(broker, f"{name}-in", partitions=1)
    compacted = {"cleanup.policy": "compact"}
    admin.create_topic(broker, f"{name}-readers", partitions=1, config=compacted)
    return Keys(place_of(settings, name).store())


@pytest.mark.broker
def test_who_is_told_by_a_personal_column_loses_the_rows_that_are_keyed_by_it(
    broker, broker_settings, tmp_path, riverrun
):
    name = "newsletter"
    keys = newsletter(name, tmp_path, broker_settings, broker)
    mails = ["ann.quxbert@x.org", "bob.zorn@x.org"]
    ann, bob = keys.seal("reader", [(each, each) for each in mails])
    sender = Sender(broker, f"{name}-readers")
    for each in (ann, bob):
        sender.send(Record(json.dumps({"email": each, "id": 1}).encode(), each.encode()))
    sender.flush()
    with closing(sqlite3.connect(tmp_path / "readers.db")) as connection, connection:
        connection.execute("CREATE TABLE readers (email TEXT, id BIGINT)")
        connection.executemany("INSERT INTO readers VALUES (?, 1)", [(ann,), (bob,)])
    ended = riverrun("forget", f"reader/{mails[0]}", "--app", name, "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["tombstones"]) == (0, [f"{name}-readers"]), report
    assert len(report["deleted"]) == 1
    assert table(broker, f"{name}-readers").keys() == {bob}
    with closing(sqlite3.connect(tmp_path / "readers.db")) as connection:
        assert connection.execute("SELECT email FROM readers").fetchall() == [(bob,)]


@pytest.mark.broker
def test_somebody_who_is_not_known_is_told_to_be_so_and_nothing_is_done(
    broker, broker_settings, tmp_path, riverrun
):
    name = "notknown"
    keys = newsletter(name, tmp_path, broker_settings, broker, by="id")
    keys.seal("reader", [("42", "ann.quxbert@x.org")])
    ended = riverrun("forget", "reader/43", "--app", name)
    assert (ended.code, "nothing is known of it" in ended.out) == (1, True), ended.err
    assert "is it written as in the records?" in ended.err
    assert not keys.knows(keys.subject("reader", "43"))
    assert json.loads(riverrun("forget", "43", "--app", name, "--json").out)["done"] is False
    for wrong in ("person/42", "reader/abc", "reader/", ""):
        refused = riverrun("forget", wrong, "--app", name)
        assert (refused.code, "RR" in refused.err) == (2, True), refused.err
    assert not ControlLog(broker, name).exists()
    ended = riverrun("forget", "reader/042", "--app", name)
    assert (ended.code, "reader/42: the key is destroyed" in ended.out) == (0, True), ended.err
    folder, place = broker_settings.checkpoint_of(name), place_of(broker_settings, name)
    note_store(folder, place, print, fresh=False)
    file = broker_settings.home / "keys" / f"{name}.db"
    keys.store.close()
    file.rename(tmp_path / "elsewhere.db")
    refused = riverrun("forget", "reader/42", "--app", name)
    assert (refused.code, "not those that it had" in refused.err) == (2, True), refused.err
    assert not file.exists()


@pytest.mark.broker
def test_a_key_that_goes_while_the_next_run_collects_takes_no_value_with_it(
    broker, broker_settings, tmp_path
):
    """The job that was asked by a run that is killed destroys it in its own time."""
    name = "goesmeanwhile"
    keys = newsletter(name, tmp_path, broker_settings, broker, by="id")
    [ann] = keys.seal("reader", [("42", "ann.quxbert@x.org")])
    sender = Sender(broker, f"{name}-readers")
    sender.send(Record(json.dumps({"email": ann, "id": 42}).encode(), b"42"))
    sender.flush()
    folder = private.folder(broker_settings.run_of(name))
    (folder / "spark.log").write_text("ann.quxbert@x.org was here")

    def broken_off(step):
        if step == "destroy the key":
            raise KeyboardInterrupt

    def destroyed(step):
        if step.startswith("collect"):
            keys.forget(keys.subject("reader", "42"))

    with pytest.raises(KeyboardInterrupt):
        forget(broker_settings, name, ("reader/42", None), step=broken_off)
    report = forget(broker_settings, name, ("reader/42", None), step=destroyed)
    assert report.key == "was destroyed before"
    assert report.readable == [f"logs, status, shuffle and spill: {folder}"]


BESIDE = """
import subprocess, sys
from riverrun import config
from riverrun.forgetting.places import place_of
from riverrun.runtime.forgetting.forget import forget
name = sys.argv[1]
store = place_of(config.load(), name).store()
# the byte that whoever has the file open locks: who can have it takes the others' index away
other = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, 6, 1, 128)"
def step(text):
    if store.held is not None:
        found = subprocess.run([sys.executable, "-c", other, f"{store.file}-shm"], stderr=-3)
        assert found.returncode == 1, text
report = forget(config.load(), name, ("reader/42", None), step=step)
assert report.key == "destroyed", report
"""


@pytest.mark.broker
def test_the_store_of_keys_is_never_open_without_its_locks(broker, broker_settings, tmp_path):
    name = "besides"
    keys = newsletter(name, tmp_path, broker_settings, broker, by="id")
    keys.seal("reader", [("42", "ann.quxbert@x.org")])
    number, file = keys.subject("reader", "42"), broker_settings.home / "keys" / f"{name}.db"
    keys.store.close()
    ended = subprocess.run([sys.executable, "-c", BESIDE, name], check=False)
    assert ended.returncode == 0
    assert SqliteStore(file).find([number]) == {number: None}


PROGRAM = """
import riverrun as rr

app = rr.App("lostkeys")
mine = rr.personal("email", subject="reader", by="id")
app.stream("lostkeys-in", schema="email string, id bigint", personal=mine).to("lostkeys-out")
"""


def test_an_application_whose_keys_are_gone_is_not_run(tmp_path, riverrun, monkeypatch):
    monkeypatch.setenv("RIVERRUN_HOME", str(tmp_path))
    settings, file = config.load(), tmp_path / "lostkeys.py"
    file.write_text(PROGRAM)
    place = place_of(settings, "lostkeys")
    note_store(settings.checkpoint_of("lostkeys"), place, print, fresh=False)
    place.store().close()
    (tmp_path / "keys" / "lostkeys.db").rename(tmp_path / "elsewhere.db")
    refused = riverrun("run", str(file), "--once")
    assert (refused.code, "not those that it had" in refused.err) == (2, True), refused.err
    folder, app = settings.checkpoint_of("lostkeys"), runpy.run_path(str(file))["app"]
    checkpoint.note(folder, shape(app.program()))
    (folder / "id").touch()
    with pytest.raises(ConfigError, match="not those that it had"):  # of `verify` and `rebuild`
        target(app, settings, "lostkeys-out")
    assert not (tmp_path / "keys" / "lostkeys.db").exists()
