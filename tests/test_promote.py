"""`riverrun promote`: at a position of the input one version's results end, and another's begin."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from riverrun.kafka import admin
from riverrun.kafka.promotions import PromotionLog
from riverrun.promotion import ASKED, FROM, LEFT, PARKED, TAKEN, promotion_topic
from running import COMMAND, Run, records, table

PROGRAM = """
import riverrun as rr
app = rr.App("{name}", pages=3)
sent = app.stream("{name}-sent", schema="id bigint, account string, amount bigint")
paid = sent.select("id", "account", "amount * {factor} AS amount", "'{by}' AS by",
                   "_partition AS part", "_offset AS place")
paid.to("{name}-paid")
totals = paid.group_by("account", name="totals").agg(n=rr.count(), total=rr.sum("amount"))
totals.to("{name}-totals")
totals.to(rr.sinks.sqlite("{file}", "totals"))
"""
PARTITIONS = 2
PATIENCE = 600.0

Kills = dict[str, list[str]]
"""Who is killed once a record of the log is there."""


class Load(threading.Thread):
    """Sends transfers at a steady pace, and keeps the ledger."""

    def __init__(self, client: dict[str, str], topic: str, per_second: int) -> None:
        super().__init__(daemon=True)
        self.topic, self.per_second = topic, per_second
        self.producer = Producer({**client, "enable.idempotence": "true"})
        self.ledger: list[tuple[str, int]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            for _ in range(self.per_second // 10):
                number = len(self.ledger)
                account, amount = f"a{number * 7919 % 31}", number % 1000
                self.ledger.append((account, amount))
                row = {"id": number, "account": account, "amount": amount}
                self.producer.produce(self.topic, json.dumps(row), partition=number % PARTITIONS)
            self.producer.poll(0)

    def end(self) -> int:
        self.ended.set()
        self.join()
        assert self.producer.flush(60) == 0
        return len(self.ledger)


class Watch:
    """Sees records of a log within milliseconds: who is killed by them has no time to go on."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        settings = {**client, "group.id": "watch", "fetch.wait.max.ms": "5"}
        self.consumer = Consumer({**settings, "enable.auto.commit": "false"})
        _, end = self.consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        self.consumer.assign([TopicPartition(topic, 0, end)])
        self.kinds: set[str] = set()
        self.give_up = time.monotonic() + PATIENCE

    def saw(self, kind: str) -> bool:
        message = None if kind in self.kinds else self.consumer.poll(0.2)
        if message is not None and not message.error():
            self.kinds.add(json.loads(message.value() or b"")["kind"])
        assert time.monotonic() < self.give_up, kind
        return kind in self.kinds


@dataclass
class Bank:
    """A program in two versions under load, and what its public places hold."""

    name: str
    folder: Path
    client: dict[str, str]
    home: Path
    runs: dict[str, Run] = field(default_factory=dict)
    promoted: list[dict[str, Any]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "bank.db"

    def start(self, version: str) -> Run:
        """As it was started before, if it was."""
        factor = 1 if version == "current" else 2
        text = PROGRAM.format(name=self.name, file=self.file, factor=factor, by=version)
        program = self.folder / f"{version}.py"
        program.write_text(text)
        options = () if version == "current" else ("--as", version)
        command = "run" if version == "current" else "deploy"
        self.runs[version] = Run(program, *options, home=self.home, command=command)
        return self.runs[version]

    def promote(self, version: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "promote", self.name, version, "--json", "--within", "10 minutes"],
            env={**os.environ, "RIVERRUN_HOME": str(self.home)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def promoted_with(self, version: str, kills: Kills) -> None:
        """Promotes a version. As soon as a record of its log is there, those that are named by it
        are ended by kill -9, and started again."""
        for run in self.runs.values():
            run.until(1)  # who was killed last has begun
        PromotionLog(self.client, self.name).make()
        watch, command = Watch(self.client, promotion_topic(self.name)), self.promote(version)
        for kind in (ASKED, PARKED, FROM, LEFT, TAKEN):
            while not watch.saw(kind):
                assert command.poll() in (None, 0), (command.communicate(), self._told())
            for who in kills.get(kind, ()):
                if who == "promote":
                    command.kill()
                    command.communicate()
                    command = self.promote(version)
                else:
                    self.runs[who].kill()
                    self.start(who)
        out, err = command.communicate(timeout=PATIENCE)
        assert command.returncode == 0, (err, self._told())
        self.promoted.append(json.loads(out))

    def _told(self) -> dict[str, str]:
        return {name: run.error()[-2000:] for name, run in self.runs.items()}

    def until(self, total: int) -> None:
        """Waits until the public stream has all."""
        give_up = time.monotonic() + PATIENCE
        while len(self.paid()) < total:
            for name, run in self.runs.items():
                assert run.process.poll() is None, (name, run.error())
            if time.monotonic() > give_up:
                missing = {*range(total)} - {row["id"] for row in self.paid()}
                raise AssertionError(f"{len(missing)} are missing: {sorted(missing)[:5]}")
            time.sleep(0.5)

    def paid(self) -> list[dict[str, Any]]:
        return [json.loads(value or "") for _, value in records(self.client, f"{self.name}-paid")]

    def judge(self, ledger: list[tuple[str, int]]) -> None:
        """Every transfer is there once, of the version that was public at its place; and the tables
        are those of the last one."""
        rows = self.paid()
        counts = Counter(row["id"] for row in rows)
        assert {*counts} == {*range(len(ledger))}, "lost"
        assert {*counts.values()} == {1}, "doubled"
        for row in rows:
            by = "current"
            for each in self.promoted:
                if row["place"] >= each["at"][f"{self.name}-sent/{row['part']}"]:
                    by = each["version"]
            assert row["by"] == by, row
        factor = 1 if self.promoted[-1]["version"] == "current" else 2
        wanted: dict[str, tuple[int, int]] = {}
        for account, amount in ledger:
            n, total = wanted.get(account, (0, 0))
            wanted[account] = n + 1, total + amount * factor
        found = table(self.client, f"{self.name}-totals").values()
        assert {row["account"]: (row["n"], row["total"]) for row in found} == wanted
        with closing(sqlite3.connect(self.file)) as own:
            stored = own.execute("SELECT account, n, total FROM totals").fetchall()
        assert {account: (n, total) for account, n, total in stored} == wanted


def judged(bank: Bank, promotions: list[tuple[str, Kills]]) -> int:
    """How many transfers there were, once each is found where it belongs."""
    admin.create_topic(bank.client, f"{bank.name}-sent", partitions=PARTITIONS)
    load = Load(bank.client, f"{bank.name}-sent", 200)
    load.start()
    try:
        for run in (bank.start("current"), bank.start("v2")):
            run.until(100)
        for version, kills in promotions:
            bank.promoted_with(version, kills)
        bank.until(load.end())
    finally:
        load.ended.set()
        for run in bank.runs.values():
            run.kill()
    bank.judge(load.ledger)
    return len(load.ledger)


@pytest.mark.broker
@pytest.mark.spark
def test_a_promotion_under_load_and_back_loses_and_doubles_nothing(
    tmp_path, broker, broker_settings
):
    bank = Bank("bank", tmp_path, broker, broker_settings.home)
    killed = {ASKED: ["promote"], FROM: ["current"], LEFT: ["v2"]}
    assert judged(bank, [("v2", killed), ("current", {})])


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_whoever_is_killed_at_whatever_step_nothing_is_lost_or_doubled(
    tmp_path, broker, broker_settings
):
    bank = Bank("everyone", tmp_path, broker, broker_settings.home)
    everybody = ("promote", "current", "v2")
    steps = [(kind, [who]) for kind in (ASKED, PARKED, FROM, LEFT) for who in everybody]
    steps += [(TAKEN, ["current"]), (TAKEN, ["v2"]), (FROM, [*everybody]), (LEFT, [*everybody])]
    # each step there and back, so that whoever is killed is once the former and once the new one
    assert judged(bank, [(to, {kind: who}) for kind, who in steps for to in ("v2", "current")])
