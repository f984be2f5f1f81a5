"""Transactions of a database are applied whole, in the order of commits, however they are told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import riverrun as rr
from envelopes import START
from riverrun.compiler.describe import as_text
from riverrun.compiler.passes import passed
from riverrun.compiler.shape import shape
from riverrun.compiler.upgrades import refused, verdicts
from riverrun.errors import JobError
from riverrun.testing import Driver
from thorough import examples
from transfers import NAMES, TOLD, Bank, Record, Tables, by_partition

SCHEMA = "id bigint, money bigint, note string"


def whole(app: rr.App, **options: Any) -> None:
    topics = [f"bank.public.{name}" for name in NAMES]
    tables = [app.table(each, schema=SCHEMA, key="id", format="debezium") for each in topics]
    for name, table in zip(NAMES, app.whole(*tables, transactions=TOLD, **options), strict=True):
        table.to(name)


def driving(pages: int = 3, **options: Any) -> Driver:
    app = rr.App("bank", pages=pages)
    whole(app, **options)
    return Driver(app)


def send(driver: Driver, records: list[Record]) -> None:
    for topic, partition, key, value in records:
        driver.send(topic, value, key=key, partition=partition)


def standing(driver: Driver) -> Tables:
    return {name: {row["id"]: row for row in driver.table(name)} for name in NAMES}


def follow(driver: Driver, bank: Bank, before: int) -> int:
    """The tables are as they were after one of the transactions that follow the last one seen."""
    found = standing(driver)
    for number in range(before, len(bank.states)):
        if bank.states[number] == found:
            return number
    raise AssertionError(f"no transaction from {before} on has left the tables like this: {found}")


def told(bank: Bank, draw: random.Random) -> list[Record]:
    """Records as a connector writes them that dies now and then: some are written again, and the
    last ones before its death only in some partitions."""
    records: list[Record] = []
    first, total = 0, len(bank.transactions)
    while True:
        last = min(first + draw.randrange(1, 30), total)
        if last == total:
            return records + _flat(bank.transactions[first:])
        again = max(last - draw.randrange(4), 0)
        records += _flat(bank.transactions[first:again])
        for lane in by_partition(_flat(bank.transactions[max(first, again) : last])).values():
            records += lane[: draw.randrange(len(lane) + 1)]
        first = again


def _flat(transactions: list[list[Record]]) -> list[Record]:
    return [record for each in transactions for record in each]


@pytest.mark.parametrize("seed", range(examples(3)))
def test_readers_see_whole_transactions_in_the_order_of_commits(seed):
    draw, bank, driver = random.Random(seed), Bank(seed), driving()
    send(driver, bank.snapshot())
    for _ in range(40):
        bank.transact(draw.choice([None] * 9 + [12]))
    lanes = by_partition(told(bank, draw))
    driver.batch()
    seen = follow(driver, bank, 0)
    while any(lanes.values()):
        for lane in lanes.values():
            most = draw.choice([0, 3, 20])
            send(driver, lane[:most])
            del lane[:most]
        if draw.random() < 0.2:
            driver.crash()
        driver.batch()
        if draw.random() < 0.2:
            driver.restart()
        seen = follow(driver, bank, seen)
    assert standing(driver) == bank.states[-1]
    assert not driver.outputs["dead"]
    assert driver.status.causes == {}


def deliver(driver: Driver, records: list[Record], draw: random.Random) -> None:
    """All of them, those of a partition in their order."""
    lanes = by_partition(records)
    while any(lanes.values()):
        for lane in lanes.values():
            most = draw.choice([0, 3, 20])
            send(driver, lane[:most])
            del lane[:most]
        driver.batch()


@pytest.mark.parametrize("seed", range(examples(2)))
def test_what_retention_has_deleted_is_not_waited_for_and_nothing_else_is_lost(seed):
    """Every partition begins somewhere in the middle; compaction has left holes."""
    draw, bank = random.Random(seed), Bank(seed, notes=False)
    for _ in range(40):
        bank.transact()
    lanes = by_partition(_flat(bank.transactions))
    left = [r for lane in lanes.values() for r in lane[draw.randrange(12) :]]
    left = [r for r in left if r[0] == TOLD or draw.random() < 0.9]
    driver, plain = driving(), Driver(plainly())
    deliver(driver, left, draw)
    driver.pass_time("2 minutes")
    send(plain, left)
    plain.batch()
    assert standing(driver) == standing(plain)
    assert driver.status.causes
    before = standing(driver)
    after = [bank.transact(2) for _ in range(5)]
    deliver(driver, _flat(after[:4]), draw)
    driver.pass_time("2 minutes")
    send(driver, after[4][:-1])
    causes = dict(driver.status.causes)
    driver.batch()
    assert standing(driver) != before
    send(driver, after[4][-1:])
    driver.batch()
    assert driver.status.causes == causes, "what is complete is counted as if it were not"


def plainly() -> rr.App:
    app = rr.App("plain", pages=3)
    for name in NAMES:
        topic = f"bank.public.{name}"
        app.table(topic, schema=SCHEMA, key="id", format="debezium").to(name)
    return app


def test_a_transaction_that_is_larger_than_a_batch_changes_everything_at_once():
    bank, driver = Bank(1), driving()
    send(driver, bank.snapshot())
    driver.batch()
    records = bank.transact(400)
    for at in range(0, len(records) - 1, 100):
        send(driver, records[at : min(at + 100, len(records) - 1)])
        driver.crash()
        assert driver.batch() == []
    driver.restart()
    send(driver, records[-1:])
    driver.batch()
    assert standing(driver) == bank.states[-1]


def test_no_more_rows_wait_than_may():
    bank = Bank(2)
    snapshot, records = bank.snapshot(), bank.transact(10)
    driver = driving(most=12)
    send(driver, snapshot)
    send(driver, records[:14])
    with pytest.raises(JobError, match="13 rows, at most 12"):
        driver.batch()
    driver = driving(most=12, when_full="let go")
    send(driver, snapshot)
    send(driver, records[:14])
    driver.batch()
    send(driver, records[14:])
    driver.batch()
    assert standing(driver) == bank.states[-1]
    assert list(driver.status.causes) == [
        "bank.transaction: transactions that went on because too many rows waited"
    ]


def test_the_order_of_commits_is_that_of_one_partition():
    driver, [begin, *_] = driving(), Bank(3).transact(1)
    driver.send(TOLD, begin[3], partition=1)
    with pytest.raises(JobError, match="several partitions"):
        driver.batch()


def test_records_that_tell_of_no_transaction_are_set_aside():
    driver, bank = driving(), Bank(4)
    driver.send(TOLD, '{"status": "PAUSE", "id": "1", "ts_ms": 1}', "no JSON")
    send(driver, bank.snapshot())
    wrapped = [
        {"schema": {}, "payload": json.loads(r[3])} if r[3] else None for r in bank.transact(2)
    ]
    for (topic, partition, key, _), value in zip(bank.transactions[0], wrapped, strict=True):
        driver.send(topic, value, key=key, partition=partition)
    driver.batch()
    assert standing(driver) == bank.states[-1]
    assert len(driver.outputs["dead"]) == 2


def test_what_is_not_a_captured_table_as_it_is_read_is_refused():
    app = rr.App("bank")
    plain = app.table("t", schema="id bigint", key="id")
    captured = app.table("a", schema="id bigint", key="id", format="debezium")
    for wrong in ([], [plain], [captured.where("id > 1")]):
        with pytest.raises(rr.ProgramError, match="captured tables, as they are read"):
            app.whole(*wrong, transactions=TOLD)
    with pytest.raises(rr.ProgramError, match="1 or more"):
        app.whole(captured, transactions=TOLD, most=0)
    [table] = app.whole(captured, transactions=TOLD)
    events = app.stream("e", schema="id bigint, at timestamp", time="at")
    with pytest.raises(rr.ProgramError, match="versions in time"):
        events.join(table, on="id", as_of="event time")


def test_one_writer_is_told_and_stands_in_the_checkpoint():
    app = rr.App("bank")
    whole(app)
    text = as_text(passed(app.plan()), Path.cwd())
    assert text.startswith("bank (16 pages, one writer)")
    assert "rows until their transaction is complete" in text
    kept = shape(app.program())
    assert kept["one writer"] is True
    found = verdicts({**kept, "one writer": False}, kept)
    assert [each.name for each in refused(found)] == ["one writer"]


def test_captured_tables_change_together_by_one_word():
    app = rr.App("bank")
    one = {"schema": "id bigint", "key": "id", "name": "shop"}
    app.capture("orders", **one, transactions="whole").to("copy")
    assert app.program().topics == ("shop.public.orders", "shop.transaction")
    assert app.program().one_writer
    with pytest.raises(rr.ProgramError, match="schema, key and personal are of one table"):
        app.capture(["orders", "lines"], **one)
    with pytest.raises(rr.ProgramError, match="capture needs a table"):
        app.capture([], transactions="whole")
    with pytest.raises(rr.ProgramError, match="table is a table or a list of tables"):
        app.capture([1, 2])


def test_a_transaction_that_has_begun_and_never_ends_is_not_waited_for_for_ever():
    """Its connector was removed in the middle, and began anew with a snapshot."""
    bank, driver = Bank(7), driving()
    lost = Bank(7).transact(2)[:-1]
    send(driver, bank.snapshot())
    send(driver, lost)
    send(driver, bank.again("a") + bank.again("b"))
    driver.batch()
    bank.transactions.append(lost)  # its number is not given again
    send(driver, bank.transact(1))
    driver.batch()
    assert driver.status.causes == {}
    driver.pass_time("2 minutes")
    assert standing(driver) == bank.states[-1]
    assert driver.status.causes == {"bank.transaction: transactions whose end is not told": 1}
    before = dict(driver.status.causes)
    send(driver, bank.transact(2))
    driver.batch()
    assert standing(driver) == bank.states[-1]
    assert driver.status.causes == before


def test_the_numbers_of_a_server_that_was_made_anew_are_not_taken_for_those_before():
    """riverrun's own capture has the place of the commit in the name of a transaction."""
    driver, moved = driving(), Bank(8)
    send(driver, moved.snapshot())
    for place, amount in (("500", 1), ("90", 2)):
        body = {"id": f"7-{place}", "total_order": 1, "data_collection_order": 1}
        row = {"id": 0, "money": amount, "note": "new"}
        change = {"op": "u", "after": row, "source": {"ts_us": START}, "transaction": body}
        counts = [{"data_collection": "public.a", "event_count": 1}]
        told = {"id": f"7-{place}", "ts_ms": START // 1000, "data_collections": None}
        driver.send(TOLD, json.dumps({**told, "status": "BEGIN"}))
        driver.send("bank.public.a", json.dumps(change), key='{"id": 0}', partition=0)
        driver.send(TOLD, json.dumps({**told, "status": "END", "data_collections": counts}))
        driver.batch()
        assert standing(driver)["a"][0] == row


def test_a_deletion_that_is_told_again_does_not_delete_what_was_put_back_since():
    """The record without a value behind it is part of no transaction."""
    bank, driver = Bank(9), driving()
    send(driver, bank.snapshot())
    records = bank.put_back("a", 0)
    for cut in range(len(records) + 1):
        send(driver, records[:cut])
        driver.batch()
        send(driver, records[cut:])
        driver.batch()
        assert standing(driver) == bank.states[-1]


def test_truncating_a_table_waits_for_the_rest_of_its_transaction():
    bank, driver = Bank(6), driving()
    send(driver, bank.snapshot())
    driver.batch()
    records = bank.truncate("a")
    send(driver, records[:-1])
    assert driver.batch() == []
    send(driver, records[-1:])
    driver.batch()
    assert standing(driver) == bank.states[-1]
    assert len(standing(driver)["a"]) == 1
