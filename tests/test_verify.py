"""`riverrun verify`: an output against what the log says, while the job goes on."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake

from jobs import Job
from riverrun.cli.program_file import load_app
from riverrun.config import load
from riverrun.kafka import admin
from running import table

pytestmark = pytest.mark.broker

PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=2)
users = app.table("{name}-users", schema="id bigint, name string, score double", key="id")
events = app.stream("{name}-events", schema="user bigint, ms double")
counts = events.group_by("user").agg(n=rr.count(), total=rr.sum("ms"))
found = users.join(counts, on={{"id": "user"}}, how="left")
found = found.with_columns(doc="json_object('name', name, 'half', [score / 2])")
found.to({sinks})
"""
ALL = """rr.sinks.sqlite("own.db", "found"), rr.sinks.postgres("found"), rr.sinks.delta("lake"),
rr.sinks.parquet("files"), "{name}-found", rr.sinks.cache("{name}"),
rr.sinks.search_index("{name}", text="name", folder="index")"""
SQLITE = 'rr.sinks.sqlite("own.db", "found")'


class Shop:
    """A program, its input, and a job."""

    def __init__(self, client: dict[str, str], postgres: str | None, name: str, text: str) -> None:
        self.name, self.client, self.postgres = name, client, postgres
        self.file = Path(f"{name}.py").absolute()
        self.file.write_text(text)
        compact = {"cleanup.policy": "compact"}
        admin.create_topic(client, f"{name}-users", partitions=2, config=compact)
        admin.create_topic(client, f"{name}-events", partitions=2)
        self.chance = random.Random(name)
        self.job = Job(load_app(self.file), load(), client, max_events=200)

    def send(self, count: int = 500) -> Shop:
        producer = Producer({**self.client, "partitioner": "murmur2_random"})
        for _ in range(count):
            user = self.chance.randrange(60)
            row = json.dumps({"name": f'"ü" \\x{user}', "score": self.chance.random()})
            gone = self.chance.random() < 0.1
            producer.produce(f"{self.name}-users", None if gone else row, str(user))
            event = {"user": self.chance.randrange(80), "ms": self.chance.random()}
            producer.produce(f"{self.name}-events", json.dumps(event))
        assert producer.flush(30) == 0
        return self


@pytest.fixture
def shops(broker, request):
    opened = []

    def make(name: str, sinks: str, postgres: str | None = None) -> Shop:
        made = Shop(broker, postgres, name, PROGRAM.format(name=name, sinks=sinks))
        opened.append(made)
        return made

    yield make
    for each in opened:
        each.job.close()


def planted_in_sql(execute) -> None:
    """One row other, one missing, one too many."""
    (first, second) = execute("SELECT id FROM found ORDER BY id LIMIT 2")
    execute(f"UPDATE found SET score = score + 0.001 WHERE id = {first[0]}")
    execute(f"DELETE FROM found WHERE id = {second[0]}")
    execute("INSERT INTO found (id, name, _version) VALUES (1000, 'nobody', 0)")


def planted_in_rows(rows: list[dict]) -> list[dict]:
    first, _, *others = sorted(rows, key=lambda row: row["id"])
    first = {**first, "score": first["score"] + 0.001}
    return [first, *others, {**dict.fromkeys(first), "id": 1000, "name": "nobody"}]


def plant(shop: Shop) -> None:
    with closing(sqlite3.connect("own.db")) as own, own:
        planted_in_sql(lambda query: own.execute(query).fetchall())
    with psycopg.connect(shop.postgres, autocommit=True) as server:
        planted_in_sql(lambda query: (c := server.execute(query)) and c.description and [*c])
    lake = DeltaTable("lake").to_pyarrow_table()
    changed = pa.Table.from_pylist(planted_in_rows(lake.to_pylist()), lake.schema)
    write_deltalake("lake", changed, mode="overwrite")
    topic = f"{shop.name}-found"
    producer = Producer({**shop.client, "partitioner": "murmur2_random"})
    rows = table(shop.client, topic)
    first, second = sorted(rows, key=int)[:2]
    wrong = {**rows[first], "score": rows[first]["score"] + 0.001}
    for key, value in (first, wrong), (second, None), ("1000", {"id": 1000, "name": "nobody"}):
        producer.produce(topic, None if value is None else json.dumps(value), key)
    assert producer.flush(30) == 0
    files = sorted(Path("files").glob("*.parquet"))
    last = pq.read_table(files[-1])
    found = [{**row, "change": "+", "revision": 9} for row in planted_in_rows(lake.to_pylist())]
    gone = {**dict.fromkeys(last.column_names), "id": int(second), "change": "-", "revision": 9}
    wrong = pa.Table.from_pylist([found[0], found[-1], gone], last.schema)
    pq.write_table(wrong, files[-1].with_name(files[-1].name.replace("-0000", "-9000")))


def told(outcome) -> list[tuple[str, int]]:
    return [(each["kind"], each["key"]) for each in json.loads(outcome.out)["differences"]]


@pytest.mark.usefixtures("valkey")
def test_in_every_sink_what_is_planted_is_found_and_nothing_else(shops, riverrun, postgres):
    name = "everywhere"
    shop = shops(name, ALL.format(name=name), postgres).send()
    shop.job.run()
    sinks = ["sqlite:own.db:found", "postgres:found", "lake", "files", f"{name}-found"]
    for sink in (*sinks, f"cache:{name}", f"search:{name}"):
        outcome = riverrun("verify", str(shop.file), sink)
        assert outcome.code == 0, outcome.out + outcome.err
        # how many batches there are depends on how quick they are
        told_of = r"rows, as the log has them \(batch \d+, 1,000 records of the log\)"
        assert re.search(told_of, outcome.out), outcome.out
    before = sorted(map(int, table(shop.client, f"{name}-found")))
    plant(shop)
    for sink in sinks:
        outcome = riverrun("verify", str(shop.file), sink, "--json")
        assert outcome.code == 1, outcome.err
        expected = [("other", before[0]), ("missing", before[1]), ("extra", 1000)]
        assert sorted(told(outcome)) == sorted(expected), sink
        found = json.loads(outcome.out)
        assert found["wanted"] == sum(each["wanted"] for each in found["ranges"])
        other = next(each for each in found["differences"] if each["kind"] == "other")
        assert other["columns"] == ["score"]
        assert other["found"]["score"] == pytest.approx(other["wanted"]["score"] + 0.001)
    shown = riverrun("verify", str(shop.file), "postgres:found")
    assert f"other    {before[0]}  score: {other['wanted']['score']} in the log, " in shown.out
    shown = riverrun("verify", str(shop.file), "postgres:found", "--limit", "1", "--ranges")
    assert "… and 2 more" in shown.out
    assert "1 missing, 1 extra, 1 other" in shown.out


def test_a_batch_that_is_half_written_is_not_compared(shops, riverrun):
    shop = shops("halves", SQLITE).send(100)
    shop.job.batch()
    shop.send(100)
    begun = shop.job.parts()
    next(begun)
    outcome = riverrun("verify", str(shop.file), "found")
    assert outcome.code == 2
    assert "a batch is half written" in outcome.err
    list(begun)
    assert riverrun("verify", str(shop.file), "found").code == 0


FIVE_TIMES = """
import sys, time
from pathlib import Path
from riverrun import cli
commits = Path(sys.argv.pop())
for _ in range(5):
    cli.main()
    seen = set(commits.iterdir())
    while set(commits.iterdir()) == seen:
        time.sleep(0.02)
"""


def test_a_table_that_is_written_all_the_time_never_differs(shops):
    """Five times, each of a later batch; before the last, the batches that Spark would have
    forgotten are gone."""
    shop = shops("busy", SQLITE).send()
    commits = shop.job.folder / "query" / "commits"
    words = ["verify", str(shop.file), "found", "--json", str(commits)]
    with shop.job.held() as job, Path("verified").open("w") as out:
        verifying = subprocess.Popen([sys.executable, "-c", FIVE_TIMES, *words], stdout=out)
        while verifying.poll() is None:
            shop.send(50)
            for _ in job.parts():
                time.sleep(0.2)  # so that most of the time it is in the middle of a batch
            time.sleep(0.3)
            if Path("verified").read_text().count("\n") == 4:
                forget(shop, 3)
    found = [json.loads(line) for line in Path("verified").read_text().splitlines()]
    assert verifying.returncode == 0, found
    assert [each["same"] for each in found] == [True] * 5
    assert len({each["batch"] for each in found}) > 1


def forget(shop: Shop, count: int) -> None:
    """As Spark forgets batches."""
    for number in range(count):
        (shop.job.folder / "query" / "offsets" / str(number)).unlink(missing_ok=True)


WINDOWS = """
import riverrun as rr
app = rr.App({name!r}, pages=2)
users = app.table("{name}-users", schema="id bigint, name string, score double", key="id")
events = app.stream("{name}-events", schema="user bigint, ms double")
minutes = events.group_by("user").window(rr.tumbling("1 second"), emit="changes").agg(n=rr.count())
minutes.to(rr.sinks.sqlite("own.db", "minutes"))
events.where("ms > 0.5").to(rr.sinks.sqlite("own.db", "slow"), "{name}-slow")
users.to(rr.sinks.screen())
"""


def test_windows_and_streams_are_compared_while_their_batches_are_known(broker, riverrun):
    shop = Shop(broker, None, "windowed", WINDOWS.format(name="windowed")).send()
    shop.job.run()
    for sink in ("minutes", "slow"):
        outcome = riverrun("verify", str(shop.file), f"sqlite:own.db:{sink}")
        assert outcome.code == 0, outcome.out + outcome.err
    with closing(sqlite3.connect("own.db")) as own, own:
        own.execute("INSERT INTO slow SELECT * FROM slow LIMIT 1")
    outcome = riverrun("verify", str(shop.file), "own.db:slow", "--json")
    assert [each["kind"] for each in json.loads(outcome.out)["differences"]] == ["extra"]
    forget(shop, 2)
    outcome = riverrun("verify", str(shop.file), "minutes")
    assert outcome.code == 2
    assert "(aggregate) goes by its batches, and the first 2 batches are forgotten" in outcome.err
    outcome = riverrun("verify", str(shop.file), "minutes", "--anyway")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "in doubt: the step" in outcome.err
    for sink in ("windowed-slow", "screen:windowed-users"):
        outcome = riverrun("verify", str(shop.file), sink)
        assert outcome.code == 2
        assert "cannot be read back" in outcome.err
    shop.job.close()


def test_what_retention_has_taken_is_named(shops, riverrun):
    shop = shops("short", SQLITE).send(100)
    shop.job.run()
    delete_before(shop.client, "short-events", 0, 5)
    outcome = riverrun("verify", str(shop.file), "found")
    assert outcome.code == 2
    assert "short-events/0: offsets 0 to 4 are gone: retention has deleted them" in outcome.err
    outcome = riverrun("verify", str(shop.file), "found", "--anyway", "--json")
    found = json.loads(outcome.out)
    assert {each["kind"] for each in found["differences"]} == {"other"}
    assert found["doubts"] == [
        "short-events/0: offsets 0 to 4 are gone: retention has deleted them"
    ]


def delete_before(client, topic: str, partition: int, offset: int) -> None:
    own = admin.connect(client)  # answers come only as long as it is there
    for each in own.delete_records([TopicPartition(topic, partition, offset)]).values():
        each.result(10)


def test_another_program_and_unknown_outputs_are_refused(shops, riverrun):
    shop = shops("unknown", SQLITE)
    outcome = riverrun("verify", str(shop.file), "nowhere")
    assert outcome.code == 2
    assert "the program has no output 'nowhere'" in outcome.err
    shop.file.write_text(shop.file.read_text().replace('how="left"', 'how="inner"'))
    outcome = riverrun("verify", str(shop.file), "found")
    assert "the program is not the one that has run" in outcome.err
