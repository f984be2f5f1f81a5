"""Debezium's envelopes, to the letter: mixed, cut anywhere, over all partitions; and joins as of
the time of commits."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import riverrun as rr
from envelopes import START, UNAVAILABLE, envelope
from riverrun.formats import FORMATS
from riverrun.schema import parse
from riverrun.testing import Driver
from thorough import examples

DEBEZIUM = FORMATS["debezium"]
USERS = "id bigint, name string, body string"
ROW = {"id": 1, "name": "ann", "body": "long"}
PARTITIONS = 3


def users(app: rr.App, **options: Any) -> rr.Table:
    return app.table("db.users", schema=USERS, key="id", format="debezium", **options)


def copying() -> Driver:
    app = rr.App("copy", pages=3)
    users(app).to("users")
    return Driver(app)


def wrapped(text: str, **fields: str) -> str:
    """With a schema part."""
    described = [{"field": name, "type": "x", "name": kind} for name, kind in fields.items()]
    schema = {"fields": [{"field": "after", "fields": described}]}
    return json.dumps({"schema": schema, "payload": json.loads(text)})


def read(schema: str, *values: str | None, key: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    records = pa.table(
        {
            "__value": pa.array(values, pa.string()).cast(pa.binary()),
            "__key": [b'{"id": 7}'] * len(values),
        }
    )
    found: list[dict[str, Any]] = DEBEZIUM.read(records, parse(schema), key).to_pylist()
    return found


class Source:
    """A table in several partitions, its records, and what stands after them: a fold in Python."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.lsn = draw, 0
        self.rows: dict[int, dict[str, Any]] = {}

    def act(self) -> list[tuple[int, str, str | None]]:
        """One statement: partitions, keys and values of its records."""
        self.lsn += 1  # which is the time of the commit, too
        act = self.draw.choice([self.put, self.put, self.put, self.update, self.update, self.go])
        return (self.truncate if self.draw.random() < 0.03 else act)()

    def record(self, number: int, op: str, after: Any, before: Any = None) -> tuple[int, str, str]:
        text = envelope(op, after, before=before, lsn=self.lsn)
        key = json.dumps({"id": number})
        if self.draw.random() < 0.3:
            return number % PARTITIONS, key, wrapped(text)
        return number % PARTITIONS, key, text

    def put(self):
        number = self.draw.randrange(12)
        row = {"id": number, "name": self.draw.choice(["a", None, "Ω"]), "body": self.body()}
        op = "u" if number in self.rows else self.draw.choice("cr")
        self.rows[number] = row
        return [self.record(number, op, row)]

    def update(self):
        if not self.rows:
            return []
        number = self.draw.choice(sorted(self.rows))
        self.rows[number] = {**self.rows[number], "name": self.draw.choice("xyz")}
        return [self.record(number, "u", {**self.rows[number], "body": UNAVAILABLE})]

    def go(self):
        """A row goes, and perhaps comes back under another key: two partitions, one transaction."""
        if not self.rows:
            return []
        number = self.draw.choice(sorted(self.rows))
        row = self.rows.pop(number)
        before = self.draw.choice([None, {"id": number}, row])
        found = [self.record(number, "d", None, before)]
        if self.draw.random() < 0.7:
            found.append((number % PARTITIONS, json.dumps({"id": number}), None))
        new = self.draw.randrange(12, 20)
        if self.draw.random() < 0.5 and new not in self.rows:
            self.rows[new] = {**row, "id": new}
            found.append(self.record(new, "c", self.rows[new]))
        return found

    def truncate(self):
        self.rows.clear()
        return [(p, *self.record(0, "t", None)[1:]) for p in range(PARTITIONS)]

    def body(self) -> str | None:
        return self.draw.choice([None, "", "text", "text" * 50, '{"a": 1}'])


@pytest.mark.parametrize("seed", range(examples(10)))
def test_the_table_is_a_fold_of_its_records_however_they_are_cut(seed):
    draw = random.Random(seed)
    source, driver = Source(draw), copying()
    for _ in range(draw.randrange(1, 7)):
        for _ in range(draw.randrange(25)):
            for partition, key, value in source.act():
                driver.send("db.users", value, key=key, partition=partition)
        if draw.random() < 0.4:
            driver.crash()
        driver.batch()
        if draw.random() < 0.4:
            driver.restart()
    assert driver.table("users") == [source.rows[n] for n in sorted(source.rows, key=str)]
    assert not driver.outputs["dead"]


def test_a_record_without_a_value_deletes_what_is_there_and_else_does_nothing():
    driver = copying()
    driver.send("db.users", envelope("c", ROW), envelope("c", {**ROW, "id": 2}))
    driver.batch()
    driver.send("db.users", None, key='{"id": 1}')  # compaction has left nothing else
    driver.send("db.users", envelope("d", None, before={"id": 2}), key='{"id": 2}')
    assert [line["op"] for line in driver.batch()] == ["-", "-"]
    driver.send("db.users", None, key='{"id": 2}')
    driver.send("db.users", None, key='{"id": 3}')
    assert driver.batch() == []
    driver.send("db.users", None, key="no key")
    driver.batch()
    [letter] = driver.outputs["dead"]
    assert letter["value"]["cause"] == "no key: id is missing"


def joined(driver: Driver) -> list[Any]:
    return [line["value"]["name"] for line in driver.outputs["joined"]]


def joining() -> Driver:
    app = rr.App("copy", pages=2)
    events = app.stream("events", schema="id bigint, at timestamp", time="at")
    events.join(users(app), on="id", as_of="event time", how="left").to("joined")
    return Driver(app)


def moment(micros: int) -> str:
    return f"2026-01-01T12:00:00.{micros:06d}Z"


def test_the_time_of_a_record_without_a_value_neither_ends_a_row_nor_moves_the_clock():
    """It is written when the connector gets there: the row may have been put there again before."""
    driver, late = joining(), START // 1000 + 60_000
    driver.send("db.users", envelope("c", ROW, lsn=10), timestamp=late)
    driver.send("db.users", envelope("d", None, before={"id": 1}, lsn=20), timestamp=late)
    driver.send("db.users", None, key='{"id": 1}', timestamp=late)
    for micros in (15, 25, 35):
        driver.send("events", {"id": 1, "at": moment(micros)})
    driver.batch()
    assert joined(driver) == ["ann"]  # the others wait for what was committed until then
    driver.send("db.users", envelope("c", {**ROW, "name": "eve"}, lsn=30), timestamp=late)
    driver.send("db.users", envelope("u", {**ROW, "name": "zoe"}, lsn=40), timestamp=late)
    driver.batch()
    driver.send("events", {"id": 1, "at": "2026-01-01T12:02:00Z"})
    driver.batch()
    driver.end()
    assert joined(driver) == ["ann", None, "eve", "zoe"]


@pytest.mark.parametrize("seed", range(examples(8)))
def test_a_join_as_of_commit_times_is_what_duckdb_finds(seed):
    draw = random.Random(seed)
    source, driver = Source(draw), joining()
    changes, events = [], []
    for _ in range(draw.randrange(1, 5)):
        for _ in range(draw.randrange(20)):
            for partition, key, value in source.act():
                at = START // 1000 + draw.randrange(100_000)  # of no meaning
                driver.send("db.users", value, key=key, partition=partition, timestamp=at)
                changes += [(source.lsn, n, source.rows[n]["name"] if n in source.rows else None,
                             n in source.rows) for n in range(20)]  # fmt: skip
        for _ in range(draw.randrange(8)):
            events.append((draw.randrange(20), 1 + draw.randrange(source.lsn + 3)))
            driver.send("events", {"id": events[-1][0], "at": moment(events[-1][1])})
        driver.batch()
        if draw.random() < 0.3:
            driver.restart()
    late = len(driver.outputs.get("joined.late", []))
    driver.end()
    found = sorted(
        (line["value"]["id"], line["value"]["at"], line["value"]["name"] or "")
        for line in driver.outputs["joined"]
    )
    assert late == 0
    assert found == as_of(changes, events)


def as_of(changes: list[Any], events: list[Any]) -> list[Any]:
    """What stood after the last change of all that was committed by then."""
    if not events:
        return []
    connection = duckdb.connect()
    connection.execute("CREATE TABLE versions (seq INT, lsn INT, id INT, name TEXT, here BOOLEAN)")
    connection.execute("CREATE TABLE events (id INT, lsn INT)")
    if changes:
        rows = [(n, *each) for n, each in enumerate(changes)]
        connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?)", rows)
    connection.executemany("INSERT INTO events VALUES (?, ?)", events)
    latest = "SELECT * FROM versions QUALIFY max(seq) OVER (PARTITION BY id, lsn) = seq"
    found = connection.execute(
        "SELECT e.id, e.lsn, CASE WHEN v.here THEN v.name END FROM events e "
        f"ASOF LEFT JOIN ({latest}) v ON e.id = v.id AND e.lsn >= v.lsn"
    ).fetchall()
    return sorted((number, moment(at), name or "") for number, at, name in found)


def test_records_with_and_without_a_schema_part_may_stand_side_by_side():
    micros = envelope("c", {"id": 1, "at": START})
    millis = wrapped(envelope("c", {"id": 2, "at": START // 1000}), at="io.debezium.time.Timestamp")
    text = envelope("c", {"id": 3, "at": "2026-01-01T12:00:00Z"})
    found = read("id bigint, at timestamp", micros, millis, text, millis, micros)
    assert [row["__cause"] for row in found] == [None] * 5
    assert [row["id"] for row in found] == [1, 2, 3, 2, 1]
    assert {row["at"] for row in found} == {datetime(2026, 1, 1, 12)}


def test_lists_hold_values_as_columns_do():
    schema = "d date[], at timestamp[][], p decimal(9,2)[], doc json[], t text[]"
    wanted = {
        "d": [date(2026, 1, 1), None], "at": [[datetime(2026, 1, 1, 12)], [], None],
        "p": [Decimal("1.50"), None], "doc": ['{"a": 1}', None], "t": ["x", None],
    }  # fmt: skip
    same: dict[str, Any] = {"p": ["1.50", None], "t": ["x", None], "doc": ['{"a": 1}', None]}
    numbers = {**same, "d": [20454, None], "at": [[START], [], None]}
    texts = {**same, "d": ["2026-01-01Z", None], "at": [["2026-01-01T12:00:00Z"], [], None]}
    nothing = dict.fromkeys(wanted)
    found = read(schema, *(envelope("c", row) for row in (nothing, numbers, texts, nothing)))
    assert [row.pop("__cause") for row in found] == [None] * 4
    assert found == [nothing, wanted, wanted, nothing]
    items = {
        "d": {"type": "int32", "name": "io.debezium.time.Date"},
        "at": {"type": "array", "items": {"type": "int64", "name": "io.debezium.time.Timestamp"}},
        "p": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
              "parameters": {"scale": "2"}},
        "doc": {"type": "string", "name": "io.debezium.data.Json"},
    }  # fmt: skip
    described = [{"field": n, "type": "array", "items": each} for n, each in items.items()]
    row = {**numbers, "at": [[START // 1000], [], None], "p": ["AJY=", None]}
    part = {"fields": [{"field": "after", "fields": described}]}
    [found] = read(schema, json.dumps({"schema": part, "payload": json.loads(envelope("c", row))}))
    assert found == {**wanted, "__cause": None}


@pytest.mark.parametrize(
    ("type", "value"),
    [("date[]", [20454, 10**9]), ("json", "no {json"), ("timestamp[]", [START, "noon"])],
)
def test_a_value_that_is_none_of_its_type_is_a_cause_however_deep(type, value):
    [found] = read(f"v {type}", envelope("c", {"v": value}))
    assert found["__cause"]


def test_one_that_cannot_be_read_harms_none_that_is_written_in_another_way():
    values = [envelope("c", {"at": at}) for at in ("noon", START, START, "2026-01-01T12:00:00Z")]
    found = read("at timestamp", *values)
    assert [bool(row["__cause"]) for row in found] == [True, False, False, False]
    assert {row["at"] for row in found[1:]} == {datetime(2026, 1, 1, 12)}


def test_a_row_is_deleted_by_its_key_whatever_else_cannot_be_read():
    before = {"id": 3, "at": "noon"}
    [found] = read("id bigint, at timestamp", envelope("d", None, before=before), key=("id",))
    assert found == {"id": 3, "at": None, "__cause": None, "__gone": True}


@pytest.mark.parametrize(
    ("type", "form"),
    [
        ("text", UNAVAILABLE), ("text", UNAVAILABLE.encode().hex()), ("text[]", [UNAVAILABLE]),
        ("bigint[]", list(UNAVAILABLE.encode())), ("map(text, text)", {UNAVAILABLE: UNAVAILABLE}),
        ("json", UNAVAILABLE),
    ],
)  # fmt: skip
def test_whatever_stands_for_a_value_that_stayed_it_comes_from_the_row_that_is_kept(type, form):
    value = {"text": "v", "text[]": ["v"], "bigint[]": [5], "map(text, text)": {"k": "v"},
             "json": '{"k":1.10}'}[type]  # fmt: skip
    app = rr.App("copy", pages=1)
    app.table("t", schema=f"id bigint, v {type}, n double", key="id", format="debezium").to("o")
    driver = Driver(app)
    driver.send("t", envelope("c", {"id": 1, "v": value, "n": 1}))
    driver.batch()
    [first] = driver.table("o")
    driver.send("t", envelope("u", {"id": 1, "v": form, "n": 0.12345678901234568}))
    driver.batch()
    assert driver.table("o") == [{**first, "n": 0.12345678901234568}]
    driver.send("t", envelope("d", None, before={"id": 1, "v": form}))
    driver.send("t", envelope("c", {"id": 1, "v": None, "n": 2}))
    driver.send("t", envelope("u", {"id": 1, "v": form, "n": 3}))
    driver.batch()
    assert driver.table("o") == [{"id": 1, "v": None, "n": 3.0}]
    assert not driver.outputs["dead"]
