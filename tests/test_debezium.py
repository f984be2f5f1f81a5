"""Debezium's envelopes as tables: every operation, values as databases have them, and what is left
out of a record."""

from __future__ import annotations

import base64
import json
import random
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

import riverrun as rr
from envelopes import START, UNAVAILABLE, Database, envelope
from riverrun.formats import FORMATS, Format
from riverrun.schema import parse
from riverrun.testing import Driver
from riverrun.testing.contracts.formats import FormatContract

DEBEZIUM = FORMATS["debezium"]
USERS = "id bigint, name string, body string"


class TestDebezium(FormatContract):
    garbage = (b"\xff\xfe{", b"", b"no JSON", b"[1, 2]", b'{"text": "a"}', b'{"op": "c"}')

    def format(self) -> Format:
        return DEBEZIUM


def users(app: rr.App, **options) -> rr.Table:
    return app.table("db.users", schema=USERS, key="id", format="debezium", **options)


def table_of(lines) -> dict:
    """What a table holds after these lines."""
    found = {}
    for line in lines:
        if line["op"] == "-":
            assert found.pop(line["key"]) == line["value"]
        else:
            found[line["key"]] = line["value"]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_table_is_what_the_database_has_however_its_log_is_cut(seed):
    database, app, dice = Database(seed), rr.App("copy", pages=3), random.Random(seed)
    users(app).to("users")
    driver = Driver(app)
    for _ in range(12):
        database.act(dice.randrange(40))
        for key, value in database.log:
            driver.send("db.users", value, key=key)
        database.log.clear()
        if dice.random() < 0.3:
            driver.crash()
        driver.batch()
        if dice.random() < 0.3:
            driver.restart()
        assert table_of(driver.outputs["users"]) == database.rows
    assert not driver.outputs["dead"]


def test_values_that_stayed_as_they_were_come_from_the_row_that_is_kept():
    app = rr.App("copy", pages=1)
    users(app).to("users")
    driver = Driver(app)
    row = {"id": 1, "name": "ann", "body": "long"}
    driver.send("db.users", envelope("c", row), key='{"id": 1}')
    driver.send("db.users", envelope("u", {**row, "name": "bob", "body": UNAVAILABLE}))
    driver.batch()
    driver.send("db.users", envelope("u", {**row, "name": "eve", "body": UNAVAILABLE}))
    driver.send("db.users", envelope("u", {"id": 2, "name": "new", "body": UNAVAILABLE}))
    driver.batch()
    assert table_of(driver.outputs["users"]) == {1: {**row, "name": "eve"}}
    [letter] = driver.outputs["dead"]
    assert letter["value"]["cause"] == (
        "the value is not in the record, and none before it is known: body"
    )


def test_what_cannot_be_read_is_a_dead_letter_and_deletes_nothing():
    app = rr.App("copy", pages=1)
    users(app).to("users")
    driver = Driver(app)
    row = {"id": 1, "name": "ann", "body": "long"}
    driver.send("db.users", envelope("c", row))
    wrong = {
        "no JSON": "the value is not JSON",
        '{"id": 1}': "the value is no envelope of Debezium: it has no op",
        envelope("x", row): "op is none of c, u, d, r and t: x",
        envelope("u", None): "op is u, but there is no row after it",
        envelope("d", None, before={"id": "one"}): "id is not a BIGINT: one",
        envelope("d", None, before={"name": "ann"}): "no key: id is missing",
        envelope("u", {**row, "id": None}): "no key: id is missing",
        envelope("u", {**row, "id": 1.5}): "id is not a BIGINT: 1.5",
    }
    for value in wrong:
        driver.send("db.users", value, key="no key either")
    driver.batch()
    assert table_of(driver.outputs["users"]) == {1: row}
    assert [each["value"]["cause"] for each in driver.outputs["dead"]] == list(wrong.values())


def decoded(schema: str, *values: str | dict):
    given = [value if isinstance(value, str) else envelope("c", value) for value in values]
    records = pa.table(
        {"__value": pa.array(given, pa.string()).cast(pa.binary()), "__key": [b"k"] * len(given)}
    )
    found = DEBEZIUM.read(records, parse(schema))
    assert not any(found["__cause"].to_pylist()), found["__cause"].to_pylist()
    return found.drop_columns(["__cause"]).to_pylist()


NOON = datetime(2026, 1, 1, 12, 0, 0, 5)


def test_times_are_read_however_the_connector_writes_them():
    day, clock = date(2026, 1, 1), time(12, 0, 0, 5)
    wanted = {"d": day, "t": clock, "at": NOON}
    days, micros = (day - date(1970, 1, 1)).days, 43_200_000_005
    rows = [
        {"d": "2026-01-01", "t": "12:00:00.000005", "at": "2026-01-01T12:00:00.000005Z"},
        {"d": "2026-01-01Z", "t": "12:00:00.000005Z", "at": "2026-01-01T12:00:00.000005Z"},
        {"d": days, "t": micros, "at": START + 5},
    ]
    schema = "d date, t time, at timestamp"
    assert decoded(schema, *rows, *reversed(rows)) == [wanted] * 6
    for row in rows:
        assert decoded(schema, row) == [wanted]


def test_the_schema_part_says_what_numbers_and_bytes_mean():
    fields = [
        {"field": "ms", "type": "int64", "name": "io.debezium.time.Timestamp"},
        {"field": "ns", "type": "int64", "name": "io.debezium.time.NanoTimestamp"},
        {"field": "d", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
        {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
         "parameters": {"scale": "2"}},
        {"field": "any", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        {"field": "doc", "type": "string", "name": "io.debezium.data.Json"},
    ]  # fmt: skip
    after = {
        "ms": START // 1000, "ns": START * 1000 + 5_000, "d": 20454, "price": "BNI=",
        "any": {"scale": 30, "value": "hgMUgIpFWjBWYA=="}, "doc": '{"a": [1, 2]}',
    }  # fmt: skip
    body = json.loads(envelope("c", after))
    schema = {"fields": [{"field": "before"}, {"field": "after", "fields": fields}]}
    [row] = decoded(
        "ms timestamp, ns timestamp, d date, price decimal(9,2), any decimal(38,30), doc json",
        json.dumps({"schema": schema, "payload": body}),
    )
    value = int.from_bytes(base64.b64decode(after["any"]["value"]), signed=True)
    assert row == {
        "ms": datetime(2026, 1, 1, 12), "ns": NOON, "d": date(2026, 1, 1),
        "price": Decimal("12.34"), "any": Decimal(f"{value}e-30"), "doc": '{"a": [1, 2]}',
    }  # fmt: skip


def test_what_stands_beside_the_row_can_be_a_column_and_the_commit_time_is_that_of_the_event():
    app = rr.App("copy", pages=1)
    columns = (
        "id bigint, _lsn bigint, _transaction bigint, _operation string, _commit_time timestamp"
    )
    app.table("db.users", schema=columns, key="id", format="debezium").to("users")
    driver = Driver(app)
    driver.send("db.users", envelope("r", {"id": 1}, lsn=77))
    driver.batch()
    [line] = driver.outputs["users"]
    assert line["value"] == {
        "id": 1, "_lsn": 77, "_transaction": 7, "_operation": "r",
        "_commit_time": "2026-01-01T12:00:00.000077Z",
    }  # fmt: skip
    assert app.program().sources[0].time.columns == ("_commit_time",)


def test_a_join_as_of_event_time_meets_the_row_that_was_committed_then():
    app = rr.App("copy", pages=2)
    events = app.stream("events", schema="id bigint, at timestamp", time="at")
    events.join(users(app), on="id", as_of="event time", how="left").to("joined")
    driver = Driver(app)
    row = {"id": 1, "name": "a", "body": "long"}
    driver.send("db.users", envelope("c", row, lsn=10))
    driver.send("db.users", envelope("u", {**row, "name": "b", "body": UNAVAILABLE}, lsn=20))
    driver.send("db.users", envelope("t", None, lsn=30))
    driver.send("db.users", envelope("c", {**row, "name": "c"}, lsn=40))
    driver.send("db.users", envelope("d", None, before={"id": 1}, lsn=50))
    for lsn in (5, 15, 25, 35, 45, 55):
        driver.send("events", {"id": 1, "at": f"2026-01-01T12:00:00.{lsn:06d}Z"})
    driver.batch()
    driver.end()
    found = [(line["value"]["name"], line["value"]["body"]) for line in driver.outputs["joined"]]
    assert found == [
        (None, None), ("a", "long"), ("b", "long"), (None, None), ("c", "long"), (None, None)
    ]  # fmt: skip


def test_a_stream_of_envelopes_is_refused_with_what_to_do():
    with pytest.raises(rr.ProgramError, match=r"app\.table"):
        rr.App("copy").stream("db.users", schema=USERS, format="debezium")
