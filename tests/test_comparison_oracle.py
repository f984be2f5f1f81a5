"""Comparisons with an earlier window, against the whole input at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given

import riverrun as rr
from test_oracle import batches, expected, kept, late_ids, mishaps, moment, oracle, run, shapes

COMPARED = [
    (rr.tumbling("10 seconds"), 10),
    (rr.tumbling("20 seconds"), 60),
    (rr.hopping("20 seconds", "10 seconds"), 30),
]


@pytest.mark.parametrize(("window", "period"), COMPARED, ids=str)
@oracle
@given(shapes, batches, mishaps)
def test_a_comparison_is_that_of_the_whole_input(window, period, shape, batches, mishaps):
    compared = {"n": rr.compared_to(timedelta(seconds=period), rr.count())}
    shape = replace(shape, window=window, aggregates=("n",), compared=compared)
    driver, _ = run(shape, batches, mishaps)
    late = late_ids(driver)
    rows = kept(shape, batches).filter(~pl.col("id").is_in(late))
    wanted = {place: row["n"] for place, row in expected(shape, rows).items()}
    found = {
        (*(row[key] for key in shape.keys), moment(row["window_start"]), -1): row
        for row in driver.table("out")
    }
    assert found.keys() == wanted.keys()
    for (*key, start, _), row in found.items():
        n, earlier = row["n"], wanted.get((*key, start - period * 1_000_000, -1))
        assert (n, row["n_earlier"]) == (wanted[*key, start, -1], earlier)
        assert row["n_difference"] == (None if earlier is None else n - earlier)
        assert row["n_ratio"] == (None if earlier is None else n / earlier)
