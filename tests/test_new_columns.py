"""Captured tables whose columns come and go while a program is away: it resumes with them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

import riverrun as rr
from envelopes import START, envelope
from riverrun.compiler import new_columns, upgrades
from riverrun.compiler.shape import Shape, shape
from riverrun.testing import Driver

TOPIC = "shop.public.users"


def copying(columns: str, *, table: bool = False, whole: bool = False) -> rr.App:
    app = rr.App("copies", pages=2)
    if table:
        app.table(TOPIC, schema=columns, key="id", format="debezium").to("copy")
    else:
        options: dict[str, Any] = {"transactions": "whole"} if whole else {}
        app.capture("users", name="shop", schema=columns, key="id", **options).to("copy")
    return app


def told(before: Shape | None, now: rr.App) -> list[str]:
    found = upgrades.verdicts(before, shape(now.program()))
    return [f"{each.outcome}: {each.why}" for each in found if each.part == "step" and each.why]


def test_a_column_that_is_new_or_gone_leaves_the_state_as_it_is():
    before = shape(copying("id bigint, name string").program())
    more = copying("id bigint, name string, tags string[]")
    assert told(before, more) == [
        "resumes: columns of its table; new: tags; its table is read once more"
    ]
    assert new_columns.to_read_again(before, shape(more.program())) == {TOPIC}
    less = copying("id bigint")
    assert told(before, less) == ["resumes: columns of its table; no longer: name"]
    assert not new_columns.to_read_again(before, shape(less.program()))
    assert new_columns.to_read_again(None, shape(more.program())) == set()


def test_a_column_of_another_type_or_one_that_was_there_before_is_refused():
    before = shape(copying("id bigint, name string").program())
    other = "other columns: its state would be read as something else"
    assert told(before, copying("id bigint, name bigint")) == [f"refused: {other}"]
    # rows in state may still have what it was
    less = new_columns.remembering(before, shape(copying("id bigint").program()))
    again = copying("id bigint, name string")
    assert told(less, again) == [f"refused: {other}"]
    still = new_columns.remembering(less, shape(copying("id bigint").program()))
    assert told(still, again) == [f"refused: {other}"]


def test_a_topic_that_nobody_can_fill_again_goes_on_with_the_columns_that_it_has():
    before = shape(copying("id bigint, name string, tags string[]", table=True).program())
    now = copying("id bigint, name string", table=True)
    [found] = upgrades.refused(upgrades.verdicts(before, shape(now.program())))
    assert found.ways_out is not None
    kept = found.ways_out.split("schema='")[1].split("'")[0]
    assert not told(before, copying(kept, table=True))


COLUMNS = {
    "at timestamp": "2026-01-01T12:00:00Z", "price decimal(9,2)": "1.50", "doc json": {"a": 1},
    "tags string[]": ["x"], "day date": "2026-01-01", "clock time": "12:00:00", "big hugeint": 7,
    "ok boolean": True, "score double": 0.5,
    "inside struct(a bigint, b string)": {"a": 1, "b": "y"},
}  # fmt: skip


def table_of(driver: Driver) -> dict[int, dict[str, Any]]:
    found = {}
    for line in driver.outputs["copy"]:
        found.pop(line["key"], None)
        if line["op"] == "+":
            found[line["key"]] = line["value"]
    return found


@pytest.mark.parametrize("column", COLUMNS)
def test_rows_that_are_kept_have_null_in_a_new_column_until_they_come_again(column):
    driver, name = Driver(copying("id bigint, name string")), column.split()[0]
    rows = [{"id": number, "name": "ann", name: COLUMNS[column]} for number in range(6)]
    for row in rows:
        driver.send(TOPIC, envelope("c", row))
    driver.batch()
    driver.program = copying(f"id bigint, {column}, name string").program()
    driver.restart()
    driver.send(TOPIC, envelope("u", {**rows[0], "name": "bob"}))
    driver.send(TOPIC, envelope("d", None, before={"id": 1}))
    driver.batch()
    found = table_of(driver)
    assert found[0][name] is not None
    assert 1 not in found
    driver.send(TOPIC, *(envelope("r", row) for row in rows[2:]))
    driver.batch()
    kept = {number: row[name] for number, row in table_of(driver).items()}
    assert kept == dict.fromkeys([0, 2, 3, 4, 5], found[0][name])
    driver.program = copying("id bigint, name string").program()
    driver.restart()
    driver.send(TOPIC, envelope("u", {**rows[2], "name": "eve"}))
    driver.send(TOPIC, envelope("t", None))
    driver.batch()
    assert not table_of(driver)


def test_rows_that_wait_for_their_transaction_go_on_with_null_in_a_new_column():
    driver = Driver(copying("id bigint, name string", whole=True))

    def change(number: int) -> None:
        body = json.loads(envelope("c", {"id": number, "name": "ann", "age": 7}))
        order = {"total_order": number, "data_collection_order": number}
        driver.send(TOPIC, json.dumps({**body, "transaction": {"id": "5-1", **order}}))

    change(1)
    driver.batch()
    driver.program = copying("id bigint, name string, age bigint", whole=True).program()
    driver.restart()
    change(2)
    counts = [{"data_collection": "public.users", "event_count": 2}]
    end = {"status": "END", "id": "5-1", "ts_ms": START // 1000, "data_collections": counts}
    driver.send("shop.transaction", json.dumps(end))
    driver.batch()
    assert [(row["id"], row["age"]) for row in driver.table("copy")] == [(1, None), (2, 7)]


PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=2)
app.capture({table!r}, name={name!r}).to(rr.sinks.sqlite({file!r}, "users"))
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_column_that_was_added_is_there_in_all_rows_when_the_program_starts_again(
    source, tmp_path, once, riverrun
):
    source.execute("CREATE TABLE @users (id bigint PRIMARY KEY, name text)")
    source.execute("INSERT INTO @users SELECT n, 'a' FROM generate_series(1, 40) AS n")
    program, file = tmp_path / "columns.py", tmp_path / "columns.db"
    table = f"{source.schema}.users"
    program.write_text(PROGRAM.format(name=source.schema, table=table, file=str(file)))

    def stored(columns: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(file)) as own:
            return own.execute(f"SELECT {columns} FROM users ORDER BY id").fetchall()

    once(program)
    source.execute("ALTER TABLE @users ADD COLUMN more int DEFAULT 5")
    verified = riverrun("verify", str(program), "users")  # by the columns that it ran with
    assert verified.code == 0, verified.err
    assert 'ADD COLUMN "more" INTEGER' in once(program, code=2).err
    with closing(sqlite3.connect(file)) as own:
        own.execute("ALTER TABLE users ADD COLUMN more INTEGER")
    once(program)
    source.execute("UPDATE @users SET name = 'b', more = 6 WHERE id = 1")
    source.settle("users")
    once(program)
    wanted = [tuple(row) for row in source.execute("SELECT id, name, more FROM @users ORDER BY id")]
    assert stored("id, name, more") == wanted
