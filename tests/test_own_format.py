"""A format of one's own: in the driver, on Spark, and by the contract of formats."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import riverrun as rr
from pairs import Pairs
from riverrun.compiler.describe import as_dict
from riverrun.compiler.passes import passed
from riverrun.delivery import encode
from riverrun.errors import JobError, ProgramError
from riverrun.formats import Format
from riverrun.kafka import admin
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec
from riverrun.schema import parse
from riverrun.testing import Driver
from riverrun.testing.contracts.formats import NOON, FormatContract
from running import produce, records

PLAIN = (
    "string",
    "boolean",
    "int",
    "bigint",
    "double",
    "decimal(9, 2)",
    "date",
    "timestamp",
)
PROGRAM = """
import riverrun as rr
from pairs import Pairs

app = rr.App("paired")
orders = app.stream("paired-orders", schema="user string, total double, at timestamp", time="at",
                    format=Pairs())
names = app.table("paired-names", schema="user string, city string", key="user", format=Pairs())
orders.where("total > 10").to(rr.sinks.topic("paired-large", format=Pairs()))
(orders.group_by("user").window(rr.tumbling("1 minute"), emit="changes").agg(n=rr.count())
       .to(rr.sinks.topic("paired-counts", format=Pairs())))
orders.join(names, on="user").select("user", "city", "total").to("paired-cities")
"""


class TestPairs(FormatContract):
    types = PLAIN
    garbage = (b"\xff\xfe{", b"no pairs", b"text=a;number=many")

    def format(self) -> Format:
        return Pairs()


def orders(app, **options):
    schema = "user string, total double, at timestamp"
    return app.stream("orders", schema=schema, time="at", format=Pairs(), **options)


def test_records_in_a_format_of_ones_own_are_rows_like_any_other():
    app = rr.App("shop")
    counts = orders(app).group_by("user").window(rr.tumbling("1 minute")).agg(sum=rr.sum("total"))
    counts.to("sums")
    driver = Driver(app)
    driver.send("orders", b"user=ann;total=2.5;at=2026-01-01T12:00:00")
    driver.send("orders", b"user=ann;total=4;at=2026-01-01T12:00:30;more=ignored")
    driver.batch()
    driver.end()
    [row] = driver.table("sums")
    assert (row["user"], row["sum"]) == ("ann", 6.5)


def test_what_the_format_fails_on_is_a_dead_letter_with_its_error_as_the_cause():
    app = rr.App("shop")
    orders(app).to("out")
    driver = Driver(app)
    driver.send("orders", b"user=ann;total=1;at=2026-01-01T12:00:00", b"user", b"\xff", None)
    driver.send("orders", b"user=bob;total=dear;at=2026-01-01T12:00:00", b"user=eve;total=1")
    found = driver.batch()
    assert [line["value"]["user"] for line in found.of("out")] == ["ann"]
    causes = [line["value"]["cause"] for line in found.of("dead")]
    assert causes[0].startswith("ValueError: not enough values to unpack")
    assert causes[1].startswith("UnicodeDecodeError: ")
    assert causes[2] == "the record has no value"
    assert "dear" in causes[3]
    assert causes[4] == "no time: at is missing"


def test_a_table_in_a_format_of_ones_own_has_upserts_and_tombstones():
    app = rr.App("shop")
    cities = app.table("names", schema="id bigint, city string", key="id", format=Pairs())
    cities.to("cities")
    driver = Driver(app)
    driver.send("names", b"id=1;city=Ulm", b"id=2;city=Bonn")
    driver.send("names", None, key="1")
    driver.batch()
    assert driver.table("cities") == [{"id": 2, "city": "Bonn"}]


def test_of_a_table_only_the_new_row_of_a_key_is_written_in_any_format():
    columns = parse("user string, n bigint")
    output = OutputSpec("out", rr.sinks.topic("out", format=Pairs()), columns, ("user",), True)
    rows = [("ann", 1, -1), ("ann", 2, 1), ("bob", 5, -1)]
    changes = [{"user": user, "n": n, "__op": op} for user, n, op in rows]
    found = encode.records(output, pa.Table.from_pylist(changes), Evaluator()).to_pylist()
    assert sorted((row["key"], row["value"]) for row in found) == [
        (b"ann", b"user=ann;n=2"),
        (b"bob", None),
    ]


def test_a_stream_without_a_key_is_written_without_one():
    output = OutputSpec("out", rr.sinks.topic("out", format=Pairs()), parse("n bigint"), (), False)
    rows = pa.Table.from_pylist([{"n": 1, "__at": NOON}])
    [found] = encode.records(output, rows, Evaluator()).to_pylist()
    assert (found["key"], found["value"]) == (None, b"n=1")


class Short(Pairs):
    def decode(self, records, columns, *, key=()):
        return super().decode(records, columns).slice(1)


class Nameless(Pairs):
    def decode(self, records, columns, *, key=()):
        return pa.table({"user": ["ann"]})


@pytest.mark.parametrize("format", [Short(), Nameless()])
def test_a_format_that_gives_too_little_stops_the_job(format):
    app = rr.App("shop")
    app.stream("orders", schema="user string, total double", format=format).to("out")
    driver = Driver(app)
    driver.send("orders", b"user=ann;total=2.5")
    with pytest.raises(JobError, match="the format 'pairs' does not give what it has to"):
        driver.batch()


def test_a_format_that_is_not_known_is_an_error_that_lists_those_that_are():
    app = rr.App("shop")
    with pytest.raises(ProgramError, match="there is no format 'avro'") as caught:
        app.stream("orders", schema="n int", format="avro")
    assert "formats: debezium, json" in str(caught.value)
    assert "test_own_format.py" in str(caught.value.where)
    with pytest.raises(ProgramError, match="there is no format 'xml'"):
        rr.sinks.topic("out", format="xml")


def test_the_format_is_described():
    app = rr.App("shop")
    orders(app).to(rr.sinks.topic("out", format=Pairs()))
    found = as_dict(passed(app.plan()))
    assert found["sources"][0]["format"] == "pairs"
    assert found["outputs"][0]["format"] == "pairs"


@pytest.mark.broker
@pytest.mark.spark
def test_a_format_of_ones_own_runs_on_spark_and_its_code_travels_to_workers(broker, tmp_path, once):
    shutil.copy(Path(__file__).with_name("pairs.py"), tmp_path)
    (tmp_path / "paired.py").write_text(PROGRAM)
    for topic in ("paired-orders", "paired-names"):
        admin.create_topic(broker, topic, partitions=2)
    produce(broker, "paired-names", [b"user=ann;city=Ulm", b"user=bob;city=Bonn"])
    users = {10: "bob", 11: "ann", 12: "bob", 13: "ann"}
    sent = [f"user={user};total={n};at=2026-01-01T12:00:{n}" for n, user in users.items()]
    produce(broker, "paired-orders", [*sent, b"\xff", "nonsense"])
    once(tmp_path / "paired.py")
    large = sorted(value or "" for _, value in records(broker, "paired-large"))
    assert large == [
        "user=ann;total=11.0;at=2026-01-01T12%3A00%3A11",
        "user=ann;total=13.0;at=2026-01-01T12%3A00%3A13",
        "user=bob;total=12.0;at=2026-01-01T12%3A00%3A12",
    ]
    counts = [value or "" for _, value in records(broker, "paired-counts")]
    assert sorted(each.rpartition(";")[2] for each in counts) == ["n=2", "n=2"]
    letters = [json.loads(value or "") for _, value in records(broker, "paired.dead")]
    assert [each["cause"].partition(":")[0] for each in letters] == [
        "UnicodeDecodeError",
        "ValueError",
    ]
