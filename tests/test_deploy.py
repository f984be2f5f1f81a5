"""`riverrun deploy`: a version beside the one that runs, its history, and its end."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hooks import Hooks, serving
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.runtime import deployments
from riverrun.sinks.database import OWN_TABLES
from riverrun.versions import Version
from running import Run, produce, records, table

V2 = Version("shop", "v2")

CURRENT = """
import riverrun as rr
app = rr.App("{name}", pages=3)
clicks = app.stream("{name}-clicks", schema="user string, ms bigint")
users = clicks.group_by("user", name="users").agg(n=rr.count())
users.to("{name}-users")
users.to(rr.sinks.view("{name}_users"))
users.to(rr.sinks.sqlite("{file}", "users"))
clicks.where("ms > 900").to(rr.sinks.webhook("{url}", name="slow"))
"""
NEXT = CURRENT.replace("n=rr.count()", 'n=rr.count(), ms=rr.sum("ms")')
OTHER = NEXT.replace("clicks.group_by", 'clicks.where("ms >= 500").group_by')


def clicks(first: int, last: int) -> list[dict]:
    return [{"user": f"u{n % 7}", "ms": n * 7919 % 1000} for n in range(first, last)]


def by_duckdb(rows: list[dict], least: int = 0) -> list[tuple]:
    with duckdb.connect() as own:
        own.execute("CREATE TABLE clicks (u text, ms bigint)")
        own.executemany("INSERT INTO clicks VALUES (?, ?)", [(r["user"], r["ms"]) for r in rows])
        return own.execute(
            "SELECT u, count(*), sum(ms)::bigint FROM clicks WHERE ms >= ? GROUP BY 1 ORDER BY 1",
            [least],
        ).fetchall()


def in_file(file: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(file)) as own:
        return own.execute(query).fetchall()


def of_topic(broker: dict[str, str], topic: str) -> list[tuple]:
    return sorted((r["user"], r["n"], r["ms"]) for r in table(broker, topic).values())


def test_the_history_of_deployments_is_only_added_to(settings, tmp_path, riverrun):
    program = tmp_path / "app.py"
    program.write_text("1")
    made = [{"kind": "topic", "name": "out--v2"}]
    first = deployments.deployed(V2, program, start="beginning", made=made)
    deployments.note(settings, "shop", first)
    assert deployments.require(settings, V2) == first
    deployments.note(settings, "shop", deployments.retired(V2))
    assert deployments.standing(settings, V2) is None
    assert deployments.versions(settings, "shop") == []
    with pytest.raises(InputError, match="no version 'v2'"):
        deployments.require(settings, V2)
    found = json.loads(riverrun("deployments", "shop", "--json").out)
    assert [(each["version"], each["state"], each["from"]) for each in found] == [
        ("v2", "retired", "beginning")
    ]
    assert found[0]["sha256"] == first.sha256
    assert found[0]["by"]
    assert found[0]["at"]
    assert not deployments.changed_since(first)
    program.write_text("2")
    assert deployments.changed_since(first)
    for _ in range(2):  # another program, and its checkpoint is deleted by hand
        second = deployments.deployed(V2, program, start="", made=[])
        deployments.note(settings, "shop", second)
    found = json.loads(riverrun("deployments", "shop", "--json").out)
    assert [each["state"] for each in found] == ["retired", "replaced", "gone"]
    deployments.note(settings, "shop", deployments.retired(V2))
    for form in ([], ["--json"]):
        unknown = riverrun("deployments", "other", *form)
        assert (unknown.code, unknown.out) == (2, "")
        assert "'other' has not run here, and no version of it [RR103]" in unknown.err
    assert "no version 'v2'" in riverrun("retire", "shop", "v2", "--yes").err
    assert "not a version that was deployed" in riverrun("retire", "shop", "current", "--yes").err


def assert_retired(
    version: str, name: str, broker: dict[str, str], file: Path, riverrun: Callable[..., Any]
) -> None:
    """All that was its own is gone, and nothing of the others."""
    last = in_file(file, "SELECT * FROM users ORDER BY 1"), records(broker, f"{name}-users")
    retired = riverrun("retire", name, version, "--yes")
    assert retired.code == 0, retired.err
    now = in_file(file, "SELECT * FROM users ORDER BY 1"), records(broker, f"{name}-users")
    assert last == now
    topics = [each.name for each in admin.topics(broker) if each.name.startswith(name)]
    assert not [each for each in topics if f"--{version}" in each]
    assert not in_file(file, f"SELECT name FROM sqlite_master WHERE name = 'users__{version}'")
    for notes in OWN_TABLES:
        applications = in_file(file, f"SELECT DISTINCT application FROM {notes}")
        assert (name,) in applications
        assert (f"{name}--{version}",) not in applications
    views = {each["view"] for each in json.loads(riverrun("views", "list", "--json").out)}
    assert f"{name}_users" in views
    assert f"{name}_users__{version}" not in views
    states = json.loads(riverrun("deployments", name, "--json").out)
    assert next(each["state"] for each in states if each["version"] == version) == "retired"


@dataclass
class Shop:
    """A program, its next versions, and all that its current one has written."""

    name: str
    folder: Path
    broker: dict[str, str]
    riverrun: Callable[..., Any]
    hooks: Hooks

    @property
    def file(self) -> Path:
        return self.folder / "copy.db"

    def program(self, text: str, file: str) -> Path:
        found = self.folder / file
        found.write_text(text.format(name=self.name, file=self.file, url=self.hooks.url))
        return found

    def send(self, first: int, last: int) -> None:
        produce(self.broker, f"{self.name}-clicks", clicks(first, last), partitions=2)

    @contextmanager
    def sending(self, first: int, last: int) -> Iterator[None]:
        """A few at a time, beside the block; all are sent when it is left."""

        def send() -> None:
            for number in range(first, last, 5):
                self.send(number, number + 5)
                time.sleep(0.25)

        with ThreadPoolExecutor(1) as beside:
            sent = beside.submit(send)
            yield
            sent.result()

    def standing(self) -> tuple:
        rows = in_file(self.file, "SELECT * FROM users ORDER BY 1")
        seen = self.riverrun("query", f"SELECT * FROM {self.name}_users ORDER BY 1", "--json").out
        topics = (f"{self.name}-users", f"{self.name}.dead", f"{self.name}.progress")
        kept = [records(self.broker, topic) for topic in topics]
        return rows, seen, kept, len(self.hooks.bodies())


@pytest.mark.broker
@pytest.mark.spark
def test_two_versions_run_at_once_and_neither_touches_what_the_other_writes(
    tmp_path, broker, broker_settings, riverrun, once
):
    name, home = "twice", broker_settings.home
    riverrun("topics", "create", f"{name}-clicks", "--partitions", "2")
    with serving(Hooks()) as hooks:
        shop = Shop(name, tmp_path, broker, riverrun, hooks)
        current, other = shop.program(CURRENT, "app.py"), shop.program(OTHER, "other.py")
        shop.send(0, 500)
        with Run(current, home=home) as old:
            old.until(500)
            before, asked = shop.standing(), ("--as", "v2", "--from", "beginning")
            with Run(other, *asked, home=home, command="deploy") as new:
                new.until(500)
                assert shop.standing() == before
                assert old.process.poll() is None
                assert of_topic(broker, f"{name}-users--v2") == by_duckdb(clicks(0, 500), 500)
                refused = riverrun("retire", name, "v2", "--yes").err
                assert "is running already" in refused
                assert f"hint: stop it first: `riverrun stop {name}--v2`\n" in refused
                second = riverrun("deploy", str(other), "--as", "v2")
                assert "is running already" in second.err

                # a third one begins with the state of the first, while batch follows batch there
                following = shop.program(NEXT, "next.py")
                with shop.sending(500, 900):
                    once(following, "--as", "v3", "--from", "state", command="deploy")
                old.until(900)
                new.until(900)
                assert new.stop() == 0, new.error()
            once(following, "--as", "v3", command="deploy")
            assert old.stop() == 0, old.error()
    slow = sum(row["ms"] > 900 for row in clicks(0, 900))
    assert len(hooks.bodies()) == slow

    everything = by_duckdb(clicks(0, 900))
    users = in_file(shop.file, "SELECT user, n FROM users ORDER BY 1")
    assert users == [row[:2] for row in everything]
    wanted = by_duckdb(clicks(0, 900), 500)
    assert in_file(shop.file, "SELECT user, n, ms FROM users__v2 ORDER BY 1") == wanted
    assert of_topic(broker, f"{name}-users--v2") == wanted
    assert len(records(broker, f"{name}--v2.mute.webhook-slow")) == slow
    # counts go on with the state that was copied, sums begin there
    third = of_topic(broker, f"{name}-users--v3")
    assert [row[:2] for row in third] == [row[:2] for row in everything]
    assert all(0 < row[2] < whole[2] for row, whole in zip(third, everything, strict=True))

    found = json.loads(riverrun("deployments", name, "--json").out)
    assert [(each["version"], each["state"], each["from"]) for each in found] == [
        ("current", "stopped", ""), ("v2", "stopped", "beginning"), ("v3", "finished", "state"),
    ]  # fmt: skip
    for version in ("v2", "v3"):
        assert_retired(version, name, broker, shop.file, riverrun)
        assert not broker_settings.checkpoint_of(f"{name}--{version}").exists()


@pytest.mark.broker
@pytest.mark.spark
def test_a_version_begins_where_it_is_told_and_goes_on_from_there(
    tmp_path, broker, broker_settings, riverrun, once
):
    name, file = "begun", tmp_path / "copy.db"
    riverrun("topics", "create", f"{name}-clicks", "--partitions", "1")
    program = tmp_path / "app.py"
    program.write_text(NEXT.format(name=name, file=file, url="http://127.0.0.1:1/x"))
    produce(broker, f"{name}-clicks", clicks(0, 50))
    riverrun("topics", "create", f"{name}-users--v2")
    refused = riverrun("deploy", str(program), "--as", "v2")
    assert f"topic {name}-users--v2" in refused.err
    riverrun("topics", "delete", f"{name}-users--v2", "--yes")
    assert (
        "has no state here" in riverrun("deploy", str(program), "--as", "v2", "--from", "state").err
    )
    assert "cannot be read" in riverrun("deploy", str(program), "--as", "v2", "--from", "noon").err

    once(program, "--as", "v2", "--from", "2999-01-01", command="deploy")
    produce(broker, f"{name}-clicks", clicks(50, 90))
    elsewhere = riverrun("deploy", str(program), "--as", "v2", "--from", "beginning")
    assert "has begun elsewhere" in elsewhere.err
    once(program, "--as", "v2", command="deploy")
    assert of_topic(broker, f"{name}-users--v2") == by_duckdb(clicks(50, 90))
    once(program, "--as", "v2", "--from", "beginning", "--fresh", command="deploy")
    assert of_topic(broker, f"{name}-users--v2") == by_duckdb(clicks(0, 90))
    assert not broker_settings.checkpoint_of(name).exists()
    answer = riverrun("retire", name, "v2")
    assert answer.code != 0  # nobody has said yes
    assert riverrun("retire", name, "v2", "--yes").code == 0


def test_a_line_of_the_history_that_was_not_written_whole_was_never_noted(settings, tmp_path):
    program = tmp_path / "app.py"
    program.write_text("1")
    first = deployments.deployed(V2, program, start="", made=[])
    deployments.note(settings, "shop", first)
    with (settings.home / "deployments" / "shop.jsonl").open("a") as file:
        file.write('{"event": "depl')
    assert deployments.entries(settings, "shop") == [first]
    deployments.note(settings, "shop", deployments.retired(V2))
    assert [each.event for each in deployments.entries(settings, "shop")] == ["deployed", "retired"]
