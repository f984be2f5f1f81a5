"""`riverrun rebuild`: a table made anew from the log, and put in place while the job goes on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from contextlib import closing

import psycopg
import pytest

from databases import COUNTS, EVALUATOR, changed
from riverrun.outputs import OutputSpec, Owner, Part, Swapped
from riverrun.schema import parse
from riverrun.sinks import topic
from riverrun.sinks.kafka.transactions import KafkaExactlyOnce
from running import COMMAND, table
from test_verify import ALL, SQLITE, plant, shops  # noqa: F401 - a fixture

pytestmark = pytest.mark.broker


@pytest.mark.usefixtures("valkey")
def test_in_every_sink_what_is_wrong_is_put_right_and_the_job_goes_on(shops, riverrun, postgres):  # noqa: F811
    name = "renewed"
    shop = shops(name, ALL.format(name=name), postgres).send(200)
    shop.job.run()
    plant(shop)
    planted = ["sqlite:own.db:found", "postgres:found", f"{name}-found"]
    sinks = [*planted, "lake", f"cache:{name}", f"search:{name}"]
    for sink in sinks:
        outcome = riverrun("rebuild", str(shop.file), sink)
        assert outcome.code == 0, outcome.out + outcome.err
        if sink in planted:
            assert "1 rows added, 1 changed, 1 removed" in outcome.out, sink
    assert riverrun("rebuild", str(shop.file), "files").code == 2
    for more in (0, 100):
        shop.send(more).job.run()
        for sink in sinks:
            outcome = riverrun("verify", str(shop.file), sink)
            assert outcome.code == 0, f"{sink} {outcome.out} {outcome.err}"
    for sink in planted:
        outcome = riverrun("rebuild", str(shop.file), sink, "--json")
        swapped = json.loads(outcome.out)["swapped"]
        assert not any(swapped.values()), f"{sink}: nothing was wrong, and nothing is written"
    assert not list(shop.job.settings.run_of(name).glob("scratch-*"))


def test_a_rebuild_that_is_killed_leaves_nothing_and_can_be_run_again(shops, riverrun, postgres):  # noqa: F811
    sinks = 'rr.sinks.postgres("found"), rr.sinks.sqlite("own.db", "found")'
    shop = shops("slain", sinks, postgres).send(500)
    shop.job.run()
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute("DELETE FROM found WHERE id % 2 = 0")
        (half,) = server.execute("SELECT count(*) FROM found").fetchone()
        for wait in (1.5, 2.5, 4.0):
            process = subprocess.Popen([*COMMAND, "rebuild", str(shop.file), "postgres:found"])
            time.sleep(wait)
            process.kill()
            process.wait()
            give_up = time.monotonic() + 10
            while server.execute(
                "SELECT 1 FROM pg_class WHERE relname = 'riverrun_fresh'"
            ).fetchone():
                assert time.monotonic() < give_up
        (left,) = server.execute("SELECT count(*) FROM found").fetchone()
        assert left >= half
    assert riverrun("rebuild", str(shop.file), "postgres:found").code == 0
    assert riverrun("verify", str(shop.file), "postgres:found").code == 0
    assert not list(shop.job.settings.run_of("slain").glob("scratch-*"))


def test_under_load_a_reader_sees_the_old_rows_or_the_new_ones(shops):  # noqa: F811
    shop = shops("loaded", SQLITE).send()
    shop.job.run()
    with closing(sqlite3.connect("own.db")) as own, shop.job.held() as job:
        whole = own.execute("SELECT count(*) FROM found").fetchone()[0]
        with own:
            own.execute("UPDATE found SET score = -1 WHERE id < 30")
            wrong = own.execute("SELECT count(*) FROM found WHERE score = -1").fetchone()[0]
        rebuild = subprocess.Popen([*COMMAND, "rebuild", str(shop.file), "found"])
        seen = set()
        while rebuild.poll() is None:
            job.batch()
            query = "SELECT count(*), sum(score = -1) FROM found WHERE id < 30"
            seen.add(own.execute(query).fetchone())
            time.sleep(0.05)
        assert rebuild.returncode == 0
        assert {count for count, _ in seen} == {own.execute(f"{query}").fetchone()[0]}
        assert {bad or 0 for _, bad in seen} <= {wrong, 0}
        assert whole > 0


def test_in_a_topic_a_row_that_the_job_writes_meanwhile_is_not_overtaken(broker):
    output = OutputSpec("overtaken", topic("overtaken"), parse(COUNTS), ("page",), table=True)
    destination, owner = KafkaExactlyOnce(broker), Owner("overtaker", "c1")
    destination.prepare([output])
    destination.take_over("overtaker", 1)

    def deliver(batch: int, *changes: tuple[int, str, int]) -> None:
        part = Part("overtaker", "c1", 1, batch, 0, batch)
        destination.begin(part)
        destination.deliver(part, [(output, changed(changes))], EVALUATOR)

    deliver(0, (1, "/a", 1), (1, "/b", 1), (1, "/c", 1))
    with destination.renewal(output, owner) as fresh:
        fresh.change(changed([(1, "/a", 7), (1, "/b", 1)]), EVALUATOR)
        with fresh.held() as written:
            assert written == 0
            deliver(1, (-1, "/a", 1), (1, "/a", 2))
            assert fresh.swap(1) is None
        assert {key: row["n"] for key, row in table(broker, "overtaken").items()} == {
            "/a": 2, "/b": 1, "/c": 1
        }  # fmt: skip
        fresh.change(changed([(-1, "/a", 7), (1, "/a", 2)]), EVALUATOR)
        with fresh.held() as written:
            assert written == 1
            deliver(2, (-1, "/b", 1), (1, "/b", 3))
            assert fresh.swap(2) == Swapped(added=0, changed=0, removed=1)
    assert {key: row["n"] for key, row in table(broker, "overtaken").items()} == {"/a": 2, "/b": 3}
