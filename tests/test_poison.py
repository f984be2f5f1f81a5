"""A record that ends every run is found, and set aside or told of; all others are once."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.clock import Now
from riverrun.delivery.outbox import Outbox
from riverrun.kafka import admin
from riverrun.kernels.letters import RecordPlace
from riverrun.kernels.lots import Lot, LotReader
from riverrun.kernels.sql import shared_evaluator
from riverrun.partitions import Partition, Range
from riverrun.runtime import aside
from riverrun.runtime.aside import SetAside
from riverrun.runtime.bisecting import MOST, NotFound, first_of, found_of, place_of
from running import Run, produce, records, table

PROGRAM = """
import os
import riverrun as rr

@rr.function("bigint")
def checked(number: int) -> int:
    if number == {poison}:
        os._exit(1)
    return number * 2

app = rr.App("{name}")
orders = app.stream("{name}-orders", schema="id bigint, city string", key="city")
orders.select("id", "city", doubled="checked(id)").to("{name}-out")
orders.group_by("city").agg(n=rr.count()).to("{name}-cities")
"""


def test_the_records_that_end_a_batch_are_found_with_few_trials():
    dice = random.Random(19)
    for _ in range(200):
        total = dice.randint(1, 5_000)
        fatal = sorted(dice.sample(range(total), min(total, dice.randint(0, 3))))
        tried = []

        def ends(count, without, again, fatal=fatal, tried=tried):
            tried.append(count)
            return next((f"by {n}" for n in fatal if n < count and n not in without), None)

        assert found_of(total, ends) == [(n, f"by {n}") for n in fatal]
        assert len(tried) <= 2 + 15 * len(fatal)


def test_a_record_that_does_harm_only_after_another_is_found():
    def ends(count, without, again):
        left = {3, 700} - set(without)
        return "both" if left == {3, 700} and count > 700 else None

    assert found_of(1_000, ends) == [(700, "both")]


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (lambda count, without, again: "always", "without any of its records"),
        (lambda count, without, again: "so many" if count > 500 + len(without) else None, "more"),
        (lambda count, without, again: None if again or count < 7 else "once", "another"),
    ],
)
def test_where_it_is_no_record_that_ends_the_batch_none_is_named(ends, why):
    with pytest.raises(NotFound, match=why):
        found_of(1_000, ends)
    assert MOST == 10


def test_the_first_records_of_several_ranges():
    ranges = [Range(Partition("a", 0), 10, 14), Range(Partition("b", 1), 0, 3)]
    assert first_of(ranges, 0) == ()
    assert first_of(ranges, 4) == (ranges[0],)
    assert first_of(ranges, 5) == (ranges[0], Range(Partition("b", 1), 0, 1))
    assert place_of(ranges, 3) == RecordPlace("a", 0, 13)
    assert place_of(ranges, 6) == RecordPlace("b", 1, 2)


def test_what_is_set_aside_is_noted_once(tmp_path):
    first, other = (SetAside("orders", 0, n, batch=7, cause="it dies") for n in (3, 4))
    aside.add(tmp_path, [first])
    aside.add(tmp_path, [replace(first, cause="again"), other])
    assert aside.read(tmp_path) == [first, other]
    assert aside.read(tmp_path / "nothing") == []


def lots(program, left_out):
    values = [json.dumps({"id": n, "city": "Rome"}).encode() for n in range(4)]
    columns = {
        "__value": values, "__key": [None] * 4, "__timestamp": [0] * 4, "__partition": [1] * 4,
        "__offset": range(10, 14),
    }  # fmt: skip
    reader = LotReader(program, {RecordPlace("set-orders", 1, n): "it dies" for n in left_out})
    return reader.read(Lot("set-orders", pa.table(columns)), Now(0, False, None))


@pytest.mark.parametrize("left_out", [{12}, {10, 11, 12, 13}])
def test_a_record_that_is_set_aside_is_a_letter_and_nothing_else(left_out):
    app = rr.App("set")
    app.stream("set-orders", schema="id bigint, city string").to("set-out")
    found = lots(app.program(), left_out)
    assert found.counts.events == 4
    assert found.counts.dead == len(left_out)
    outbox = Outbox(app.program(), shared_evaluator(), lambda places: {})
    for chunk in found.chunks:
        outbox.add(chunk)
    rows = {output.name: table.to_pylist() for output, table in outbox.outputs()}
    assert [row["id"] for row in rows.get("set-out", [])] == [
        n for n in range(4) if n + 10 not in left_out
    ]
    letters = next(each for name, each in rows.items() if name != "set-out")
    assert {row["offset"] for row in letters} == left_out
    assert {(row["step"], row["cause"]) for row in letters} == {("poison", "it dies")}
    assert json.loads(letters[0]["value"])["id"] == min(left_out) - 10


def prepared(broker, folder, name, program, *, poison=2_345, count=5_000):
    file = folder / f"{name}.py"
    file.write_text(program.format(name=name, poison=poison, folder=folder))
    admin.create_topic(broker, f"{name}-orders", partitions=2)
    sent = [{"id": n, "city": f"c{n % 7}"} for n in range(count)]
    produce(broker, f"{name}-orders", sent, partitions=2)
    return file


def require_all_but_one(broker, riverrun, name):
    rows = [json.loads(value) for _, value in records(broker, f"{name}-out")]
    assert sorted(row["id"] for row in rows) == [n for n in range(5_000) if n != 2_345]
    assert all(row["doubled"] == 2 * row["id"] for row in rows)
    cities = table(broker, f"{name}-cities")
    assert sum(row["n"] for row in cities.values()) == 4_999
    [letter] = json.loads(riverrun("dead", "list", name, "--json").out)["letters"]
    assert letter["place"] == f"{name}-orders/1/1172"
    assert letter["step"] == "poison"
    assert "a Python worker has ended" in letter["cause"]
    assert json.loads(letter["value"]) == {"id": 2_345, "city": "c0"}
    [found] = [e for e in json.loads(riverrun("ps", "--json").out) if e["application"] == name]
    assert found["aside"] == [f"{name}-orders/1/1172"]


@pytest.mark.broker
@pytest.mark.spark
def test_a_record_that_kills_its_process_is_set_aside_and_all_others_are_once(
    broker, tmp_path, once, riverrun
):
    file = prepared(broker, tmp_path, "poison", PROGRAM)
    options = ("--max-events", "3000")
    assert "a Python worker has ended" in once(file, *options, code=2).error()
    once(file, "--search", "set-aside")
    once(file, *options)
    require_all_but_one(broker, riverrun, "poison")


HALF = """
import os, time
from pathlib import Path
import riverrun as rr

@rr.function("bigint")
def checked(number: int) -> int:
    if number == {poison}:
        waited = Path("{folder}/waited")
        if not waited.exists():  # until what others make of the record is delivered
            waited.touch()
            time.sleep(20)
        os._exit(1)
    return number

app = rr.App("{name}")
orders = app.stream("{name}-orders", schema="id bigint, city string", key="id")
parts = orders.select("id", part="[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]").explode("part")
parts.group_by("part").agg(n=rr.count()).to("{name}-parts")
orders.group_by("id").agg(n=rr.count()).select("id", "n", same="checked(id)").to("{name}-out")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_where_a_part_of_the_batch_was_delivered_with_the_record_the_job_stops(
    broker, tmp_path, once
):
    file = prepared(broker, tmp_path, "half", HALF, poison=5, count=9)
    once(file, code=2)
    written = table(broker, "half-parts")
    assert written, "one of two tasks has delivered"
    assert {row["n"] for row in written.values()} == {9}
    stopped = once(file, "--search", "stop", code=2).error()
    assert "a record ends every run of batch 0" in stopped
    assert "half-orders/1/2" in stopped
    assert "a Python worker has ended" in once(file, code=2).error(), "nothing has changed"
    refused = once(file, "--search", "set-aside", code=2).error()
    assert "a part of batch 0 was delivered with what half-orders/1/2 gave" in refused
    assert table(broker, "half-parts") == written


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_the_supervisor_finds_it_by_itself(broker, broker_settings, tmp_path, riverrun):
    file = prepared(broker, tmp_path, "poisoned", PROGRAM)
    options = ("--once", "--restart", "--poison", "set-aside", "--max-events", "3000")
    with Run(file, *options, home=broker_settings.home) as run:
        assert run.end(900) == 0, run.error()
    assert "set aside: poisoned-orders/1/1172" in run.error()
    require_all_but_one(broker, riverrun, "poisoned")
