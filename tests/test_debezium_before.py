"""What Debezium says of a row before its change is a check on the row that is kept: a difference is
told and counted, and nothing else comes of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import riverrun as rr
from envelopes import UNAVAILABLE, Database, Row, envelope
from riverrun.testing import Driver
from thorough import examples

USERS = "id bigint, name string, body string"
ANN = {"id": 1, "name": "ann", "body": "long"}
OTHERWISE = "kept otherwise than the source says it was before a change"
COUNTED = f"db.users: {OTHERWISE}"


def copying(schema: str = USERS, pages: int = 1) -> Driver:
    app = rr.App("copy", pages=pages)
    app.table("db.users", schema=schema, key="id", format="debezium").to("users")
    return Driver(app)


def send(driver: Driver, op: str, after: Row, before: Row | None = None) -> None:
    driver.send("db.users", envelope(op, after, before=before))


def test_a_row_that_was_kept_otherwise_is_told_once_a_batch_counted_and_then_right():
    driver = copying()
    for number in (1, 2, 3):
        send(driver, "r", {**ANN, "id": number})
    # a change that cannot be read is lost
    send(driver, "x", {**ANN, "name": "bob"})
    driver.batch()
    assert (driver.last.doubts, driver.last.dead) == ({}, 1)
    bob = {**ANN, "name": "bob", "body": "other"}
    send(driver, "u", {**bob, "name": "eve"}, before=bob)
    send(driver, "u", {**ANN, "id": 2}, before={**ANN, "id": 2, "body": None})
    send(driver, "u", {**ANN, "id": 3, "name": "new"}, before={**ANN, "id": 3})
    driver.batch().assert_is("""
        +- | id | name | body
        -  | 1  | ann  | long
        +  | 1  | eve  | other
        -  | 3  | ann  | long
        +  | 3  | new  | long
    """)
    assert driver.last.doubts == {
        "db.users": f'{{"id": 1}} was {OTHERWISE}: name, body; and 1 more'
    }
    assert driver.last.causes == {COUNTED: 2}
    send(driver, "u", ANN, before={**bob, "name": "eve"})
    driver.batch()
    assert not driver.last.doubts
    assert driver.status.causes[COUNTED] == 2


def test_what_the_source_does_not_say_is_not_compared():
    driver = copying()
    send(driver, "u", ANN, before={**ANN, "name": "old"})  # never seen: it may be from before
    driver.batch()
    send(driver, "u", ANN, before={"id": 1})  # columns that the table did not have yet
    send(driver, "u", ANN, before={**ANN, "body": UNAVAILABLE, "gone": 5})
    send(driver, "u", ANN, before={"id": 0, "name": "by another index", "body": None})
    driver.send("db.users", json.dumps({**json.loads(envelope("u", ANN)), "before": "no row"}))
    send(driver, "u", ANN)
    driver.send("db.users", envelope("d", None, before={"id": 1, "name": None, "body": ""}))
    send(driver, "u", ANN, before={**ANN, "name": "after it was deleted"})
    driver.batch()
    assert (driver.last.doubts, driver.last.causes, driver.last.dead) == ({}, {}, 0)


def test_rows_before_are_read_as_those_after_are():
    schema = "id bigint, at timestamp, price decimal(9,2), doc json, tags string[], day date"
    fields = [
        {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2"}},
        {"field": "doc", "type": "string", "name": "io.debezium.data.Json"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    ]  # fmt: skip
    described = {"fields": [{"field": "after", "fields": fields}]}
    row = {"id": 1, "at": 1_767_268_800_000, "price": "BNI=", "doc": '{"a": 1}', "tags": ["x"],
           "day": 20454}  # fmt: skip
    plain = {**row, "at": "2026-01-01T12:00:00Z", "price": "12.34", "day": "2026-01-01"}
    later = {**plain, "at": "2026-01-01T12:00:01Z", "price": "1.00", "tags": [], "day": None}
    driver = copying(schema)
    send(driver, "c", plain)

    def wrapped(after: Row, before: Row) -> str:
        body = json.loads(envelope("u", after, before=before))
        return json.dumps({"schema": described, "payload": body})

    driver.send("db.users", wrapped(row, before=row))
    send(driver, "u", plain, before=plain)
    driver.batch()
    assert not driver.last.doubts
    driver.send("db.users", wrapped(row, before={**row, "at": row["at"] + 1, "tags": ["y"]}))
    send(driver, "u", plain, before=later)
    driver.batch()
    assert driver.last.doubts == {"db.users": f'{{"id": 1}} was {OTHERWISE}: at, tags; and 1 more'}
    assert driver.status.dead == 0


class Telling(Database):
    """A database that says with each update how the row was, and sometimes lies."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.told: dict[int, Row] = {}
        self.lies = 0

    def tell(
        self, number: int | None, op: str, after: Row | None, before: Row | None = None
    ) -> None:
        if op == "u" and number is not None:
            before = dict(self.told[number])
            roll = self.dice.random()
            if roll < 0.1:
                before["name"] = f"not {before['name']}"
                self.lies += 1
            elif roll < 0.2:
                before["body"] = UNAVAILABLE
        super().tell(number, op, after, before)
        self.told = {key: dict(row) for key, row in self.rows.items()}


@pytest.mark.parametrize("seed", range(examples(2)))
def test_every_difference_is_counted_and_no_other_however_the_log_is_cut(seed):
    database, dice, driver = Telling(seed), random.Random(seed), copying(pages=3)
    for _ in range(10):
        database.act(dice.randrange(60))
        for key, value in database.log:
            driver.send("db.users", value, key=key)
        database.log.clear()
        if dice.random() < 0.3:
            driver.crash()
        driver.batch()
        if dice.random() < 0.3:
            driver.restart()
        assert {row["id"]: row for row in driver.table("users")} == database.rows
    assert database.lies
    assert driver.status.causes == {COUNTED: database.lies}


def test_rows_of_whole_transactions_are_compared_when_they_go_on():
    app = rr.App("copy", pages=2)
    table = app.table("pg.public.users", schema=USERS, key="id", format="debezium")
    [users] = app.whole(table, transactions="pg.transaction")
    users.to("users")
    driver = Driver(app)
    driver.send("pg.public.users", envelope("r", ANN))
    driver.batch()

    def told(body: dict[str, Any]) -> None:
        driver.send("pg.transaction", json.dumps({"id": "5:1", "ts_ms": 1767268800000, **body}))

    bob = {**ANN, "name": "bob"}
    for turn, (after, before) in enumerate([(bob, ANN), (ANN, {**bob, "body": "x"})], start=1):
        body = json.loads(envelope("u", after, before=before))
        body["transaction"] = {"id": "5:1", "total_order": turn, "data_collection_order": turn}
        driver.send("pg.public.users", json.dumps(body))
    told({"status": "BEGIN"})
    driver.batch()
    assert not driver.last.doubts
    counts = [{"data_collection": "public.users", "event_count": 2}]
    told({"status": "END", "event_count": 2, "data_collections": counts})
    driver.batch()
    name = "pg.public.users"
    assert driver.last.doubts == {name: f'{{"id": 1}} was {OTHERWISE}: body'}
    assert driver.last.causes == {f"{name}: {OTHERWISE}": 1}


def test_an_as_of_join_compares_what_it_keeps():
    app = rr.App("copy", pages=2)
    events = app.stream("events", schema="id bigint, at timestamp", time="at")
    users = app.table("db.users", schema=USERS, key="id", format="debezium")
    events.join(users, on="id", as_of="event time", how="left").to("joined")
    driver = Driver(app)
    send(driver, "c", ANN)
    send(driver, "u", {**ANN, "name": "bob"}, before={**ANN, "name": "eve"})
    driver.batch()
    assert list(driver.last.causes.values()) == [1]
