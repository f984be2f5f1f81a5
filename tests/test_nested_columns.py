"""Nested columns on their way through steps: kept whole, however tables are cut."""

from __future__ import annotations

import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.kernels.sql import Evaluator
from riverrun.testing import Driver

AT = "2026-01-01T00:0{}:00Z"
MAPS = {
    "map(string, int)": {"a": 1, "b": 2},
    "map(int, string)": {1: "a"},
    "map(string, int)[]": [{"a": 1}, {"b": 2}, {"c": 3}],
    "struct(m map(string, int))": {"m": {"x": 3}},
}


@pytest.mark.parametrize("type", MAPS)
def test_a_processor_keeps_and_gives_maps(type):
    class Keeping(rr.Processor):
        state = f"kept {type}"
        outputs = {"out": f"id int, kept {type}, now {type}"}

        def on_event(self, event, state, context):
            context.emit("out", id=event.id, kept=state.kept, now=MAPS[type])
            state.kept = MAPS[type]

    app = rr.App("maps")
    rows = app.stream("t", schema="id int, k string, at timestamp", time="at")
    rows.process(Keeping, by="k").stream.to("out")
    driver = Driver(app)
    for number in range(2):
        driver.send("t", {"id": number, "k": "a", "at": AT.format(number)})
        driver.batch()
        driver.restart()
    first, second = (line["value"] for line in driver.outputs["out"])
    assert first["kept"] is None
    assert second["kept"] == second["now"] == first["now"]
    assert second["now"] is not None


def test_a_row_without_a_key_does_not_take_its_neighbour_with_it():
    app = rr.App("keys")
    schema = "id int, v struct(a struct(x int)), at timestamp"
    app.stream("t", schema=schema, time="at").to_table("v").to("out")
    driver = Driver(app)
    good = [{"id": n, "v": {"a": {"x": n}}, "at": AT.format(0)} for n in range(1, 4)]
    driver.send("t", {"id": 0, "v": None, "at": AT.format(0)}, *good)
    driver.batch()
    assert sorted(row["id"] for row in driver.table("out")) == [1, 2, 3]
    assert [line["value"]["cause"] for line in driver.outputs["dead"]] == [
        "Invalid Input Error: no key: v is null"
    ]


def test_tables_whose_columns_are_cut_at_different_rows_are_read():
    rows = [{"a": {"x": n, "l": [n]}} for n in range(10)]
    nested = pa.array(rows)
    cut = pa.chunked_array([nested.slice(0, 3), nested.slice(3)])
    numbers = pa.chunked_array([pa.array(range(5)), pa.array(range(5, 10))])
    found = Evaluator().run("SELECT n, s FROM t", t=pa.table({"n": numbers, "s": cut}))
    assert found.to_pylist() == [{"n": n, "s": row} for n, row in enumerate(rows)]


def test_rows_of_tables_that_are_cut_anywhere_keep_their_order():
    """DuckDB makes a join of IN with five values, and a join lets rows of one chunk pass others."""
    names = [f"k{n % 7}" for n in range(123)]
    whole = pa.table({"name": names, "n": range(123)})
    rows = pa.concat_tables([whole.slice(0, 47), whole.slice(47)])
    query = "SELECT n FROM rows WHERE name IN ('k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6')"
    assert Evaluator().run(query, rows=rows)["n"].to_pylist() == list(range(123))
