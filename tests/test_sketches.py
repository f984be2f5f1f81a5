"""Sketches: within their bounds on real numbers, the same in every process, small."""

from __future__ import annotations

import hashlib
import math
import random
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.aggregation import aggregation
from riverrun.errors import Location
from riverrun.kernels import quantiles, sketches
from riverrun.kernels.aggregates import merged, parts_sql, prepared, results, settled
from riverrun.kernels.sql import Evaluator
from riverrun.schema import parse
from riverrun.testing import Driver

HERE = Location("program.py", 1)


def parts(agg, values, type, lots):
    """The merged parts of values that arrive in so many lots."""
    if agg.kind == "approx_distinct":
        pytest.importorskip("datasketches", reason="has no build for Python 3.14 yet")
    made = (aggregation("r", agg, parse(f"x {type}"), HERE),)
    query = f"SELECT 1 AS g, {', '.join(parts_sql(made))} FROM rows"
    evaluator, state = Evaluator(), None
    for part in np.array_split(np.arange(len(values)), lots):
        rows = pa.table({"x": [values[place] for place in part.tolist()]})
        frame = pl.DataFrame(pl.from_arrow(evaluator.run(query, rows=rows)))
        frame = prepared(frame, made)
        together = frame if state is None else pl.concat([state, frame])
        state = settled(together.group_by("g").agg(*merged(made)), made)
    return state, made


def answer(agg, values, type="bigint", lots=7):
    state, made = parts(agg, values, type, lots)
    return state.select(results(made))["r"].to_list()[0]


@pytest.mark.parametrize("count", [0, 1, 20, 500, 3_000, 40_000])
@pytest.mark.parametrize("type", ["bigint", "string", "double"])
def test_distinct_values_are_within_three_standard_errors(count, type):
    of = {"bigint": int, "string": str, "double": float}[type]
    values = [of(number % max(count, 1)) for number in range(count + count // 3)]
    found = answer(rr.approx_distinct("x"), values, type)
    assert abs(found - count) <= 3 * 1.04 / math.sqrt(4096) * count


@pytest.mark.parametrize("count", [30, 450, 800, 5_000, 30_000])
def test_distinct_values_do_not_depend_on_order_and_cut(count):
    found = set()
    for seed in range(6):
        values = list(range(count))
        random.Random(seed).shuffle(values)
        found.add(answer(rr.approx_distinct("x"), values, lots=1 + seed * 3))
    assert len(found) == 1


def stream(kind, count=60_000):
    chance = np.random.default_rng(7)
    return {
        "normal": lambda: chance.normal(size=count),
        "skewed": lambda: chance.lognormal(sigma=2, size=count),
        "rising": lambda: np.arange(float(count)),
        "zooming": lambda: np.arange(float(count)) * np.where(np.arange(count) % 2, 1, -1),
        "repeated": lambda: chance.integers(0, 2_000, count).astype(float),
    }[kind]()


@pytest.mark.parametrize("kind", ["normal", "skewed", "rising", "zooming", "repeated"])
@pytest.mark.parametrize("lots", [1, 13, 300])
def test_percentiles_are_within_the_rank_error(kind, lots):
    values = stream(kind)
    fractions = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
    found = answer(rr.approx_percentile("x", fractions), values.tolist(), "double", lots)
    ordered = np.sort(values)
    for fraction, value in zip(fractions, found, strict=True):
        low = np.searchsorted(ordered, value, side="left") / len(values)
        high = np.searchsorted(ordered, value, side="right") / len(values)
        assert low - 0.0133 <= fraction <= high + 0.0133


def test_percentiles_of_few_values_are_exact():
    values = [float(n % 500) for n in range(20_000)]
    assert answer(rr.approx_percentile("x", 0.95), values, "double") == answer(
        rr.percentile("x", 0.95), values, "double"
    )


@pytest.mark.parametrize("lots", [1, 50])
def test_the_state_of_percentiles_stays_small(lots):
    state, _ = parts(rr.approx_percentile("x", 0.5), stream("normal").tolist(), "double", lots)
    kept = state["__r__v"].list.len().item()
    assert kept <= quantiles.LIMIT
    rows = state["__r__v"].list.explode(keep_nulls=False, empty_as_null=False).struct.field("n")
    assert rows.sum() == 60_000


def zipf(count=50_000, seed=3):
    return np.random.default_rng(seed).zipf(1.3, count) % 20_000


@pytest.mark.parametrize("lots", [1, 10, 60])
def test_frequent_values_are_at_most_a_thousandth_of_the_rows_too_low(lots):
    values = zipf()
    found = answer(rr.approx_top("x", k=20), values.tolist(), lots=lots)
    exact = {each["value"]: each["count"] for each in answer(rr.top("x", k=1024), values.tolist())}
    bound = len(values) / (sketches.FREQUENT + 1)
    assert [each["value"] for each in found[:5]] == list(exact)[:5]
    assert all(0 <= exact[each["value"]] - each["count"] <= bound for each in found)
    kept = {each["value"] for each in answer(rr.approx_top("x", k=1024), values.tolist())}
    assert {value for value, count in exact.items() if count > bound} <= kept


def test_the_state_of_frequent_values_stays_small():
    state, _ = parts(rr.approx_top("x"), list(range(30_000)), "bigint", 5)
    assert state["__r__v"].list.len().item() <= sketches.FREQUENT


def test_frequent_values_that_are_few_are_exact():
    words = [f"w{n % 40}" for n in range(1_000)] + ["w3"] * 5
    assert answer(rr.approx_top("x", k=3), words, "string") == [
        {"value": "w3", "count": 30},
        {"value": "w0", "count": 25},
        {"value": "w1", "count": 25},
    ]


def test_counts_are_never_too_low_and_rarely_too_high():
    values = zipf()
    asked = list(range(400))
    found = answer(rr.approx_counts("x", of=asked), values.tolist())
    exact = np.bincount(values, minlength=20_000)
    over = [each["count"] - int(exact[each["value"]]) for each in found]
    assert [each["value"] for each in found] == asked
    assert min(over) >= 0
    bound = len(values) * math.e / sketches.BUCKETS
    assert sum(error > bound for error in over) <= len(over) * math.exp(-sketches.HASHES) + 3


def test_counts_do_not_depend_on_the_cut_and_stay_small():
    values = zipf().tolist()
    one, many = (parts(rr.approx_counts("x", of=[1]), values, "bigint", n)[0] for n in (1, 40))
    assert one.equals(many)
    assert one["__r__v"].list.len().item() <= sketches.HASHES * sketches.BUCKETS


@pytest.mark.parametrize(
    ("type", "values", "asked"),
    [
        ("string", ["a", "b", "a", None], {"a": 2, "c": 0}),
        ("bigint", [1, 1, 2, None], {1: 2, 3: 0}),
        ("double", [0.5, 2.0, 2.0], {2.0: 2, 0.5: 1}),
        ("boolean", [True, True, False], {True: 2, False: 1}),
    ],
)
def test_counts_can_be_asked_for_by_value(type, values, asked):
    found = answer(rr.approx_counts("x", of=list(asked)), values, type, lots=2)
    assert found == [{"value": value, "count": count} for value, count in asked.items()]


AGAIN = """
import hashlib, sys
sys.path.append({path!r})
from test_sketches import digest
print(digest())
"""


def digest() -> str:
    """A hash of the bytes of all sketches after many lots."""
    found = hashlib.sha256()
    whole, numbers = zipf(20_000).tolist(), stream("normal", 20_000).tolist()
    words = [f"word {n}" for n in whole]
    for agg, values, type in [
        (rr.approx_distinct("x"), words, "string"),
        (rr.approx_percentile("x", 0.5), numbers, "double"),
        (rr.approx_top("x"), words, "string"),
        (rr.approx_counts("x", of=["word 1"]), words, "string"),
    ]:
        state, _ = parts(agg, values, type, lots=9)
        found.update(state.write_ipc_stream(None).getvalue())
    return found.hexdigest()


def test_another_process_gives_the_same_bytes():
    code = AGAIN.format(path=__file__.rsplit("/", 1)[0])
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest()


def test_without_datasketches_the_program_says_so_where_it_is_built(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(rr.ProgramError, match="needs the package datasketches") as error:
        aggregation("n", rr.approx_distinct("x"), parse("x int"), HERE)
    assert error.value.where == HERE
    assert "rr.distinct" in error.value.hint


def test_sketches_in_a_program_survive_a_restart():
    pytest.importorskip("datasketches", reason="has no build for Python 3.14 yet")

    def driver():
        app = rr.App("shop", pages=2)
        views = app.stream("views", schema="page string, user bigint, ms double")
        views.group_by("page").agg(
            users=rr.approx_distinct("user"),
            slow=rr.approx_percentile("ms", 0.95),
            who=rr.approx_top("user", k=2),
            some=rr.approx_counts("user", of=[1, 2]),
        ).to("out")
        return Driver(app)

    def run(mishap):
        found, chance = driver(), random.Random(5)
        for _ in range(4):
            rows = [{"page": "/a", "user": chance.randrange(1_500) % 1_200, "ms": chance.random()}
                    for _ in range(1_000)]  # fmt: skip
            found.send("views", *rows)
            if mishap:
                found.restart()
            found.batch()
        return found.table("out")

    assert run(mishap=True) == run(mishap=False)
