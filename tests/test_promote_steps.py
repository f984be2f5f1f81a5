"""A promotion step by step, in every sink that takes part; whatever is killed, it goes on.

Versions run batch by batch in this process: topics, databases and logs are real.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hooks import hooks  # noqa: F401 - a fixture
from jobs import Job
from killing import Killed
from riverrun import config
from riverrun.cli.program_file import load_app
from riverrun.compiler.shape import shape
from riverrun.compiler.ways import ways
from riverrun.kafka import admin
from riverrun.kafka.promotions import PromotionLog
from riverrun.kernels.lots import LotReader
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.state import SegmentCache
from riverrun.outputs import Done, destinations
from riverrun.partitions import as_texts
from riverrun.promotion import ASKED, Noted
from riverrun.runtime import checkpoint, deployments, promoting, runs
from riverrun.runtime.surroundings import places_of
from riverrun.runtime.versioned import beside
from riverrun.sources.gate import SWITCH, Gate
from riverrun.versions import CURRENT, Version
from running import produce, records, table

pytestmark = pytest.mark.broker

PROGRAM = """
import riverrun as rr
app = rr.App("{name}", pages=3)
sent = app.stream("{name}-sent", schema="id bigint, account string, amount bigint")
paid = sent.select("id", "account", "amount * {factor} AS amount", "'{by}' AS by")
paid.to("{name}-paid")
totals = paid.group_by("account", name="totals").agg(n=rr.count(), total=rr.sum("amount"))
totals.to("{name}-totals", {sinks})
paid.to(rr.sinks.webhook("{url}", name="told"))
"""
EVERY = 'rr.sinks.sqlite("bank.db", "totals"), rr.sinks.postgres("totals"), rr.sinks.view("totals")'


@dataclass
class Member(Job):
    """A version that runs; its places are those that the log of promotions has for it."""

    version: Version = field(kw_only=True)
    file: Any = field(kw_only=True)
    """The program as its file has it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.planner.gate = Gate.of(self.client, self.version, self.folder)

    def batch(self) -> bool:
        ran = super().batch()
        if ran:
            done = Done(
                self.program.name, self.identity.checkpoint, self.number - 1, self.at.tick,
                as_texts(self.at.ends), own={}, clocks={}, highs={}, closes={}, aside={},
            )  # fmt: skip
            for destination in destinations(self.program.outputs, self.places):
                destination.note(done)
        if (self.folder / SWITCH).exists():
            promoting.switched(self.file, self.version, self.settings, print)
            (self.folder / SWITCH).unlink()
            self.place()
        return ran

    def place(self) -> None:
        """As each start does."""
        public = PromotionLog(self.client, self.version.of).look().is_public(self.version.name)
        self.program = beside(self.file, self.version, public=public).program()
        self.places = places_of(self.program, self.settings, self.client, print)
        for destination, outputs in destinations(self.program.outputs, self.places).items():
            destination.prepare(outputs)
            destination.announce(self.program.name, outputs, ways(self.program))
        checkpoint.note(self.folder, shape(self.program))
        self.reader = LotReader(self.program)
        self.kernels = [
            PageKernel(self.program, level, SegmentCache(1 << 28), "job", known=each.known)
            for level, each in enumerate(self.kernels)
        ]


@dataclass
class Bank:
    name: str
    folder: Path
    client: dict[str, str]
    sinks: str = EVERY
    url: str = field(kw_only=True)
    sent: int = 0
    members: dict[str, Member] = field(default_factory=dict)

    def begin(self) -> Bank:
        admin.create_topic(self.client, f"{self.name}-sent", partitions=2)
        PromotionLog(self.client, self.name).make()  # as `deploy` does
        self.settings = config.load()
        for by, factor in (("current", 1), ("v2", 2)):
            file = self.folder / f"{self.name}_{by}.py"
            facts = {"name": self.name, "sinks": self.sinks, "url": self.url}
            file.write_text(PROGRAM.format(by=by, factor=factor, **facts))
            app, version = load_app(file), Version(self.name, by)
            own = beside(app, version, public=by == CURRENT)
            self.members[by] = Member(own, self.settings, self.client, version=version, file=app)
            self.members[by].place()
        return self

    def send(self, count: int = 10) -> None:
        rows = [
            {"id": n, "account": f"a{n % 5}", "amount": n}
            for n in range(self.sent, self.sent + count)
        ]
        produce(self.client, f"{self.name}-sent", rows, partitions=2)
        self.sent += count

    def go_on(self, load: int = 0) -> None:
        """Both, in turns, until there is nothing left to do."""
        for number in range(30):
            if number < load:
                self.send(3)
            ran = [member.batch() for member in self.members.values()]
            known = PromotionLog(self.client, self.name).look()
            if not any(ran) and known.open is None and number >= load:
                return
        raise AssertionError(f"it does not come to its end: {known}")

    def judge(self, public: str) -> None:
        """All that was sent is there once, and every table is that of the version."""
        paid = [json.loads(value or "") for _, value in records(self.client, f"{self.name}-paid")]
        assert Counter(row["id"] for row in paid) == Counter(range(self.sent))
        factor = 1 if public == CURRENT else 2
        wanted: dict[str, tuple[int, int]] = {}
        for n in range(self.sent):
            count, total = wanted.get(f"a{n % 5}", (0, 0))
            wanted[f"a{n % 5}"] = count + 1, total + n * factor
        for place, found in self.tables():
            assert found == wanted, place

    def tables(self) -> Iterator[tuple[str, dict[str, tuple[int, int]]]]:
        rows = table(self.client, f"{self.name}-totals").values()
        yield "topic", {row["account"]: (row["n"], row["total"]) for row in rows}
        if self.sinks != EVERY:
            return
        query = "SELECT account, n, total FROM totals"
        for file in ("bank.db", self.settings.home / "views.sqlite"):
            with closing(sqlite3.connect(file)) as own:
                yield str(file), {each: (n, total) for each, n, total in own.execute(query)}
        assert self.settings.postgres is not None
        with psycopg.connect(self.settings.postgres) as own:
            yield "postgres", {each: (n, total) for each, n, total in own.execute(query)}

    def ask(self, version: str) -> None:
        PromotionLog(self.client, self.name).note(Noted(0, ASKED, version=version))

    def close(self) -> None:
        for each in self.members.values():
            each.close()


@pytest.fixture
def banks(broker, tmp_path, monkeypatch) -> Iterator[Callable[..., Bank]]:
    monkeypatch.chdir(tmp_path)
    opened: list[Bank] = []

    def make(name: str, **facts: Any) -> Bank:
        opened.append(Bank(name, tmp_path, broker, **facts).begin())
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def killed_once(monkeypatch: Any, owner: Any, name: str, at: int) -> None:
    """The n-th call is not made any more."""
    real, calls = getattr(owner, name), iter(range(at))

    def call(*given: Any) -> Any:
        if next(calls, None) is None:
            raise Killed
        return real(*given)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_whatever_step_is_killed_every_sink_is_handed_over_and_back(
    every,
    banks,
    hooks,  # noqa: F811
    monkeypatch,
):
    bank = banks("stepwise", url=hooks.url)
    bank.send()
    bank.go_on()
    tables, notes = 4, 4
    kills = [(promoting, "brought", number) for number in range(2 * tables)]
    kills += [(PromotionLog, "note", number) for number in range(notes)]
    kills = kills[::every]
    public = CURRENT
    for owner, name, at in kills:
        public = "v2" if public == CURRENT else CURRENT
        bank.ask(public)
        bank.send(4)
        with monkeypatch.context() as patched:
            killed_once(patched, owner, name, at)
            with pytest.raises(Killed):
                bank.go_on(load=3)
        for each in bank.members.values():
            each.place()  # it starts again
        bank.go_on(load=2)
        bank.judge(public)
    assert len(PromotionLog(bank.client, bank.name).look().done) == len(kills)
    told = Counter(body["value"]["id"] for body in hooks.bodies())
    assert told == Counter(range(bank.sent)), "one version tells, and never two"


@contextmanager
def runs_as(member, file, *, begun=True):
    """As a run leaves it that has begun, or is about to."""
    noted = runs.noted(member.folder, master="", log=file.parent, program=str(file))
    with member.held(), noted as run:
        if begun:
            run.note(started_at=time.time())
        yield run


def test_who_is_about_to_run_is_waited_for(banks, hooks, riverrun, tmp_path):  # noqa: F811
    bank = banks("waited", sinks='rr.sinks.sqlite("bank.db", "totals")', url=hooks.url)
    bank.send()
    bank.go_on()
    current, v2 = bank.members.values()
    files = [tmp_path / f"waited_{each}.py" for each in ("current", "v2")]
    deployments.note(bank.settings, bank.name, deployments.deployed(v2.version, files[1]))
    files[0].write_text(files[0].read_text() + 'paid.to("more")\n')
    with runs_as(current, files[0], begun=False) as run, runs_as(v2, files[1]):
        begins = threading.Timer(1, run.note, kwargs={"started_at": time.time()})
        begins.start()
        told = riverrun("promote", bank.name, "v2").err
    assert told.startswith("waiting: waited is about to run\nerror: waited cannot take part")


REFUSED = (
    ('paid.to(rr.sinks.parquet("lake"))', "cannot change hands yet"),
    ('paid.to("more")', "its file is not what runs"),
    ('sent.through("own").to("more")', "it reads what it writes"),
    ('app.delivery = "at least once"', "it delivers at least once"),
)


def test_what_cannot_be_promoted_is_told_before_anything_happens(
    banks,
    hooks,  # noqa: F811
    riverrun,
    tmp_path,
):
    bank = banks("refused", sinks='rr.sinks.sqlite("bank.db", "totals")', url=hooks.url)
    bank.send()
    bank.go_on()
    assert "no version 'v3'" in riverrun("promote", bank.name, "v3").err
    assert "nothing is known" in riverrun("promote", "nobody", "current").err
    assert not admin.exists(bank.client, "nobody.versions")
    (current, v2), asked = bank.members.values(), ("promote", bank.name, "v2")
    files = [tmp_path / f"refused_{each}.py" for each in ("current", "v2")]
    deployments.note(bank.settings, bank.name, deployments.deployed(v2.version, files[1]))
    assert "error: refused does not run" in riverrun(*asked).err
    with runs_as(current, files[0]):
        assert "is public already" in riverrun("promote", bank.name, "current").err
        assert "refused--v2 does not run" in riverrun(*asked).err
        with runs_as(v2, files[1]):
            for file in files:
                text = file.read_text()
                for line, told in REFUSED:
                    file.write_text(f"{text}{line}\n")
                    answer = riverrun(*asked)
                    assert told in answer.err, answer.err
                file.write_text(text)
            copied = deployments.deployed(v2.version, files[1], start="state")
            deployments.note(bank.settings, bank.name, copied)
            assert "is not whole" in riverrun(*asked).err
    known = PromotionLog(bank.client, bank.name).look()
    assert (known.public, known.open, known.done) == (CURRENT, None, ())
