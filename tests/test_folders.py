"""Streams from the files of a folder: each row once, whatever the files are."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import riverrun as rr
from riverrun.errors import InputError, ProgramError
from riverrun.schema import parse
from riverrun.sources.folders import lines
from riverrun.sources.folders.ledger import Ledger
from riverrun.sources.folders.rows import index, same, values
from riverrun.testing import Driver
from running import Run, produce, table

SCHEMA = "id bigint, text string, price decimal(20, 10), on boolean, tags string[], at timestamp"
ROWS = [
    {"id": 1, "text": 'a "quoted",\n line', "price": "0.1234567891", "on": True, "tags": ["x"]},
    {"id": -7, "text": "Ünï,", "price": "1234567890.0123456789", "on": False, "tags": []},
    {"id": None, "text": None, "price": None, "on": None, "tags": None},
]


def read(path: Path, schema: str = SCHEMA, start: int = 0, end: int | None = None) -> list:
    count, places = index(path)
    found = values(path, places, start, count if end is None else end, parse(schema))
    return [each.decode() for each in found.to_pylist()]


def as_csv(path: Path, rows: list[dict], delimiter: str = ",", end: str = "\r\n") -> Path:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(rows[0])
    for row in rows:
        cells = [
            "" if v is None else json.dumps(v) if isinstance(v, list) else v for v in row.values()
        ]
        writer.writerow(cells)
    path.write_bytes(out.getvalue().encode())
    return path


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_rows_of_csv_have_the_types_of_the_schema(tmp_path, name, delimiter):
    path = as_csv(tmp_path / name, ROWS, delimiter)
    found = [json.loads(text, parse_float=str) for text in read(path)]
    assert found == ROWS


def test_a_cell_that_does_not_fit_stays_text_and_a_row_of_another_length_stays_a_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,on\n1.5,maybe\nseven,true\n1,2,3\n007,false\n\n+5,0")
    assert read(path, "id bigint, on boolean") == [
        '{"id":1.5,"on":"maybe"}',
        '{"id":"seven","on":true}',
        "1,2,3",
        '{"id":7,"on":false}',
        '{"id":5,"on":false}',
    ]


def test_rows_of_parquet_are_what_they_were(tmp_path):
    path = tmp_path / "a.parquet"
    at = [1_767_268_800_123_456, None, 0]
    columns = {
        "id": pa.array([1, None, 3]),
        "price": pa.array(["1.1", None, "12345678901234567890.5"]).cast(pa.decimal128(30, 9)),
        "at": pa.array(at, pa.timestamp("us", "UTC")), "ms": pa.array(at, pa.timestamp("us")),
        "x": pa.array([float("nan"), float("inf"), 1.5]), "other": pa.array(["a", "b", "c"]),
    }  # fmt: skip
    parquet.write_table(pa.table(columns), path, row_group_size=2)
    schema = "id bigint, price decimal(20, 10), at timestamp, ms timestamp_ms, x double"
    assert read(path, schema) == [
        '{"id":1,"price":1.100000000,"at":"2026-01-01T12:00:00.123456Z","ms":1767268800123,"x":"NaN"}',
        '{"id":null,"price":null,"at":null,"ms":null,"x":"Infinity"}',
        '{"id":3,"price":12345678901234567890.500000000,"at":"1970-01-01T00:00:00.000000Z","ms":0,"x":1.5}',
    ]
    assert read(path, "id bigint", 1, 3) == ['{"id":null}', '{"id":3}']


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", range(5))
def test_any_piece_of_a_file_holds_the_rows_that_the_whole_has(tmp_path, monkeypatch, seed, end):
    chance = random.Random(seed)
    monkeypatch.setattr(lines, "BLOCK", 13)
    monkeypatch.setattr(lines, "PIECE", 4)
    monkeypatch.setattr("riverrun.sources.folders.rows.PIECE", 4)
    texts = ["", "a", 'say "hi"', f"two{end}lines", ",", '"', "long" * 9]
    rows = [{"id": n, "text": chance.choice(texts)} for n in range(37)]
    path = as_csv(tmp_path / "a.csv", rows, end=end)
    whole = read(path, "id bigint, text string")
    assert [json.loads(text)["id"] for text in whole] == list(range(37))
    for _ in range(20):
        low, high = sorted(chance.sample(range(38), 2))
        assert read(path, "id bigint, text string", low, high) == whole[low:high]


def test_lines_of_json_are_records_as_they_are(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\r\n\n{"text":"\\"one quote"}\nnonsense\xff')
    found = values(path, index(path)[1], 0, 3, parse("a bigint")).to_pylist()
    assert found == [b'{"a":1}', b'{"text":"\\"one quote"}', b"nonsense\xff"]


def put(path: Path, text: str, *, age: float = 10) -> None:
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))


def test_files_are_noted_once_in_the_order_in_which_they_come(tmp_path):
    ledger, pattern = Ledger(tmp_path / "ledger"), str(tmp_path / "in" / "*.csv")
    (tmp_path / "in").mkdir()
    put(tmp_path / "in" / "b.csv", "id\n1\n2\n")
    put(tmp_path / "in" / "empty.csv", "id\n")
    put(tmp_path / "in" / "_hidden.csv", "id\n1\n")
    put(tmp_path / "in" / "fresh.csv", "id\n9\n", age=0)
    ledger.look(pattern)
    put(tmp_path / "in" / "a.csv", "id\n3\n")
    ledger.look(pattern)
    ledger.look(pattern)
    assert [(Path(e.path).name, e.first, e.rows) for e in ledger.entries] == [
        ("b.csv", 0, 2), ("empty.csv", 2, 0), ("a.csv", 2, 1),
    ]  # fmt: skip
    found = [(Path(e.path).name, low, high) for e, low, high in ledger.pieces(1, 3)]
    assert found == [("b.csv", 1, 2), ("a.csv", 0, 1)]


def test_a_note_that_was_cut_off_is_made_again(tmp_path):
    ledger, pattern = Ledger(tmp_path / "ledger"), str(tmp_path / "*.csv")
    put(tmp_path / "a.csv", "id\n1\n")
    ledger.look(pattern)
    with ledger.file.open("a") as file:
        file.write('{"path": "half')
    put(tmp_path / "b.csv", "id\n2\n")
    again = Ledger(ledger.file)
    again.look(pattern)
    assert [Path(e.path).name for e in again.entries] == ["a.csv", "b.csv"]
    assert len(ledger.file.read_text().splitlines()) == 2


def test_a_file_that_has_changed_is_not_read_as_if_it_had_not(tmp_path):
    path = tmp_path / "a.csv"
    put(path, "id\n1\n")
    about = path.stat()
    same(path, about.st_size, about.st_mtime_ns)
    put(path, "id\n1\n2\n")
    with pytest.raises(InputError, match="has changed after its rows were counted"):
        same(path, about.st_size, about.st_mtime_ns)


def test_a_stream_of_files_is_tested_as_any_other():
    app = rr.App("orders")
    orders = app.stream("in/*.csv", name="orders", schema="id bigint, _x string")
    orders.group_by("id").agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.run(orders="id\n1\n1")
    assert driver.table("out") == [{"id": 1, "n": 2}]
    assert driver.program.steps[0].name == "orders_by_id"


def test_files_without_an_ending_are_refused():
    with pytest.raises(ProgramError, match="a pattern that tells what they are"):
        rr.App("orders").stream("in/*", schema="id bigint")


PROGRAM = """
import riverrun as rr

app = rr.App("folder-orders")
orders = app.stream("{folder}/*.csv", name="orders", schema="id bigint, shop string")
shops = app.table("folder-shops", schema="shop string, city string", key="shop")
orders.join(shops, on="shop", how="left").group_by("city", name="cities").agg(
    n=rr.count(), sum=rr.sum("id")
).to("folder-cities")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_kills_lose_and_repeat_no_row_of_files_and_new_ones_are_read_as_they_come(
    tmp_path, broker, broker_settings, riverrun
):
    file, folder = tmp_path / "app.py", tmp_path / "in"
    folder.mkdir()
    file.write_text(PROGRAM.format(folder=folder))
    riverrun("topics", "create", "folder-shops", "--partitions", "1")
    produce(broker, "folder-shops", [{"shop": "a", "city": "rome"}])

    def add(number: int, rows: int) -> None:
        lines = [f"{number * 100_000 + each},{'ab'[each % 2]}" for each in range(rows)]
        put(folder / f"{number}.csv", "id,shop\n" + "\n".join([*lines, "x,a"]))

    add(0, 3000)
    for number in (1, 2):
        with Run(file, "--max-events", "700", home=broker_settings.home) as run:
            run.until(500)
            add(number, 1500)
            run.kill()
    with Run(file, "--once", home=broker_settings.home) as run:
        assert run.end() == 0, run.error()
    ids = {c: [] for c in "ab"}
    for number, rows in enumerate((3000, 1500, 1500)):
        for each in range(rows):
            ids["ab"[each % 2]].append(number * 100_000 + each)
    found = table(broker, "folder-cities")
    assert sorted((row["n"], row["sum"]) for row in found.values()) == sorted(
        (len(each), sum(each)) for each in ids.values()
    )
    [dead] = map(json.loads, riverrun("dead", "list", "folder-orders", "--json").out.splitlines())
    assert len({letter["place"] for letter in dead["letters"]}) == 3
    assert {letter["topic"] for letter in dead["letters"]} == {"files+orders"}
