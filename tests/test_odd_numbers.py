"""Odd numbers in aggregates: what is none, what is infinite, zeros below zero, the ends of types.

However rows are cut into lots and merged, the result is that of DuckDB over all of them.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.aggregation import aggregation
from riverrun.errors import Location
from riverrun.kernels.aggregates import merged, parts_sql, prepared, results, settled
from riverrun.kernels.parts import Aggregation
from riverrun.kernels.sql import Evaluator
from riverrun.kernels.typed import arrow_type
from riverrun.schema import parse
from riverrun.testing import Driver
from thorough import examples

HERE = Location("program.py", 1)
EVALUATOR = Evaluator()
SCHEMA = "id bigint, g bigint, x string, i bigint, u ubigint, h hugeint"
INF, NAN = float("inf"), float("nan")
WHOLE = {
    "tinyint": (8, True), "smallint": (16, True), "integer": (32, True), "bigint": (64, True),
    "utinyint": (8, False), "usmallint": (16, False), "uinteger": (32, False),
    "ubigint": (64, False),
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    name: [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0, 1, None]
    if signed
    else [2**bits - 1, 2**bits - 2, 0, 1, None]
    for name, (bits, signed) in WHOLE.items()
}
VALUES |= {
    "double": [NAN, INF, -INF, 0.0, -0.0, 1.5, 5e-324, 1.7976931348623157e308, -1e300, None],
    "float": [NAN, INF, -INF, 0.0, -0.0, 1.5, 3.4028234663852886e38, None],
    "hugeint": [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0), Decimal(7), None],
}
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 3e10, None]
MILD = {"double": FLOATS, "float": FLOATS, "hugeint": [Decimal(10**9), Decimal(-7), None]}
"""Of which no sum is beyond all numbers, or loses one in another."""

ORDERED = {
    "n": (rr.count("x"), "count(x)"),
    "least": (rr.min("x"), "min(x)"),
    "most": (rr.max("x"), "max(x)"),
    "kinds": (rr.distinct("x"), "count(DISTINCT x)"),
    "middle": (rr.median("x"), "quantile_cont(x::DOUBLE, 0.5)"),
    "parts": (rr.percentile("x", [0, 0.3, 1]), "quantile_cont(x::DOUBLE, [0, 0.3, 1])"),
    "top": (
        rr.top("x", k=2),
        "(SELECT list({'value': v, 'count': c} ORDER BY c DESC, v)[:2] FROM (SELECT v, count(*) "
        "AS c FROM unnest(list(x)) AS t(v) WHERE v IS NOT NULL GROUP BY v))",
    ),
}
SUMMED = {
    "total": (rr.sum("y"), "sum(y)"),
    "mean": (rr.avg("y"), "avg(y)"),
    "flow": (rr.rate("y"), "sum(y) / 60"),
    "spread": (rr.variance("y"), "var_samp(y::DOUBLE)"),
    "deviation": (rr.stddev("y"), "stddev_samp(y::DOUBLE)"),
}
PLACED = {
    "first": (rr.first("x"), "first(x ORDER BY __pos) FILTER (x IS NOT NULL)"),
    "last": (rr.last("x"), "last(x ORDER BY __pos) FILTER (x IS NOT NULL)"),
    "all": (rr.collect("x"), "coalesce(list(x ORDER BY __pos) FILTER (x IS NOT NULL), [])"),
}


def relation(type: str, rows: list[dict[str, Any]]) -> pa.Table:
    hidden = {"__sub": 0, "__at": 0, "__op": 1}
    placed = [hidden | {"__pos": place} | row for place, row in enumerate(rows)]
    number = arrow_type(type)
    schema = pa.schema(
        [("g", pa.int32()), ("x", number), ("y", number), ("__op", pa.int8()),
         ("__at", pa.timestamp("us")), ("__pos", pa.int64()), ("__sub", pa.int64())]
    )  # fmt: skip
    return pa.Table.from_pylist(placed, schema=schema)


def typed(type: str) -> str:
    """Arrow has no type for the longest numbers: they come as decimals."""
    return f"(SELECT * REPLACE (x::{type} AS x, y::{type} AS y) FROM rows)"


@cache
def made_of(type: str, *, signed: bool) -> tuple[Aggregation, ...]:
    schema, chosen = parse(f"g int, x {type}, y {type}"), of_rows(signed=signed)
    return tuple(aggregation(n, a, schema, HERE, signed=signed) for n, (a, _) in chosen.items())


def of_rows(*, signed: bool) -> dict[str, Any]:
    return ORDERED | SUMMED | ({} if signed else PLACED)


def computed(type: str, rows: list[Any], chance: random.Random, *, signed: bool) -> dict[str, Any]:
    """Through parts: rows cut into lots, and lots merged in any grouping."""
    made, frames = made_of(type, signed=signed), []
    parts = ", ".join(parts_sql(made, signed=signed))
    query = f"SELECT g, {parts} FROM {typed(type)} GROUP BY g"
    placed = [{"__pos": place} | row for place, row in enumerate(rows)]
    while placed:
        count = chance.randrange(1, 6)
        lot, placed = relation(type, placed[:count]), placed[count:]
        frame = pl.DataFrame(pl.from_arrow(EVALUATOR.run(query, rows=lot)))
        frames.append(prepared(frame, made))
    while len(frames) > 1:
        count = chance.randrange(2, 4)
        some, frames = frames[:count], frames[count:]
        grouped = pl.concat(some).group_by("g", maintain_order=True).agg(*merged(made))
        frames.insert(chance.randrange(len(frames) + 1), settled(grouped, made))
    return frames[0].select(results(made, pl.lit(60.0))).to_dicts()[0]


def expected(type: str, rows: list[Any], *, signed: bool) -> dict[str, Any]:
    chosen = of_rows(signed=signed)
    texts = ", ".join(f"{sql} AS {name}" for name, (_, sql) in chosen.items())
    query = f"SELECT {texts} FROM {typed(type)}"
    return EVALUATOR.run(query, rows=relation(type, rows)).to_pylist()[0]


def alike(mine: Any, theirs: Any, off: float = 1e-6) -> bool:
    """Up to rounding; a zero is a zero."""
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(alike, mine, theirs))
    if isinstance(theirs, dict):
        return all(alike(mine[name], theirs[name]) for name in theirs)
    if mine is None or theirs is None:
        return mine is theirs
    if math.isnan(theirs):
        return math.isnan(mine)
    return bool(mine == theirs) or math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=off)


def fitting(type: str, found: dict[str, Any]) -> dict[str, Any]:
    """A sum that 64 bits do not hold is null."""
    total = found.get("total")
    if type in WHOLE and type != "ubigint" and total is not None:
        found["total"] = total if -(2**63) <= total < 2**63 else None
    return found


def differing(
    type: str, rows: list[Any], chance: random.Random, left: list[Any] | None = None
) -> list[Any]:
    """Aggregates that are not what DuckDB gives. `left`: what is left of a table's rows, if it is
    one."""
    signed = left is not None
    found = computed(type, rows, chance, signed=signed)
    wanted = fitting(type, expected(type, rows if left is None else left, signed=signed))
    wanted["top"] = wanted["top"] or []
    # a variance is made of doubles: one that left has taken their last digits with it
    largest = float(max((abs(y) for row in rows if math.isfinite(y := row["y"] or 0)), default=0))
    off = {"spread": 1e-9 * largest**2, "deviation": 1e-4 * largest}
    zeros = [name for name in ("least", "most") if found[name] == 0]
    return [
        (name, found[name], value)
        for name, value in wanted.items()
        if not alike(found[name], value, max(off.get(name, 0), 1e-6))
    ] + [name for name in zeros if math.copysign(1, found[name]) < 0]


def drawn(type: str, data: st.DataObject) -> list[dict[str, Any]]:
    mild = MILD.get(type, VALUES[type])
    pairs = st.tuples(st.sampled_from(VALUES[type]), st.sampled_from(mild))
    rows = data.draw(st.lists(pairs, min_size=1, max_size=14))
    return [{"g": 1, "x": x, "y": y} for x, y in rows]


@pytest.mark.parametrize("type", VALUES)
@settings(max_examples=examples(5), deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_odd_numbers_of_a_stream_give_the_same_however_they_are_cut(type, data, seed):
    assert differing(type, drawn(type, data), random.Random(seed)) == []


@pytest.mark.parametrize("type", VALUES)
@settings(max_examples=examples(5), deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_odd_numbers_that_leave_a_table_leave_its_aggregates(type, data, seed):
    rows, chance = drawn(type, data), random.Random(seed)
    gone = [row for row in rows[1:] if chance.random() < 0.5]
    left = [row for row in rows if not any(row is each for each in gone)]
    signed = rows + [{**row, "__op": -1} for row in gone]
    assert differing(type, signed, chance, left) == []


OF_FLOATS = {
    **{name: agg for name, (agg, _) in ORDERED.items()},
    # of numbers like these a sum is exact; a variance is so up to rounding
    **{name: SUMMED[name][0] for name in ("total", "mean")},
}
APPROXIMATE = {
    "about": rr.approx_distinct("x"),
    "often": rr.approx_top("x"),
    "quarter": rr.approx_percentile("x", 0.25),
    "counts": rr.approx_counts("x", of=[0.0, -0.0, 1.5]),
}


@cache
def of_floats() -> rr.App:
    """Every aggregate, of a stream and of a table, and a table that keeps rows."""
    pytest.importorskip("datasketches", reason="has no build for Python 3.14 yet")
    app = rr.App("odd", pages=2)
    rows = app.stream("t", schema=SCHEMA).with_columns(x="x::double", y="x::double")
    placed = {name: agg for name, (agg, _) in PLACED.items()}
    grouped = rows.group_by("g", name="stream")
    grouped.agg(**OF_FLOATS, **placed, **APPROXIMATE).to("stream")
    table = rows.to_table("id", name="table")
    table.to("table")
    of_table = table.group_by("g", name="of_table").agg(**OF_FLOATS)
    of_table.to("of_table")
    ranked = table.group_by("g", name="ranked").top(3, by="x", place="place")
    ranked.to("ranked")
    return app


def standing(app: rr.App, lots: list[list[dict[str, Any]]]) -> str:
    driver = Driver(app)
    for lot in lots:
        driver.send("t", *lot)
        driver.batch()
    assert not driver.status.causes
    return repr({name: driver.table(name) for name in driver.outputs})


@settings(max_examples=examples(5), deadline=None)
@given(
    st.lists(
        st.sampled_from([None if x is None else str(x) for x in FLOATS]), min_size=2, max_size=12
    ),
    st.sets(st.integers(1, 10)),
)
@example(["1.5", "nan"], {1})
@example(["0.0", "-0.0", "0.0", "-0.0", "-0.0", "0.0"], {1, 2, 4})
@example(["inf", "inf", "-inf", "5.0", "1.5", "1.5"], {3})
def test_any_cut_of_odd_numbers_into_batches_gives_the_same_text(values, cuts):
    records = [{"id": n % 3, "g": 1, "x": x} for n, x in enumerate(values)]
    bounds = [0, *sorted(cuts), len(records)]
    lots = [records[a:b] for a, b in pairwise(bounds)]
    assert standing(of_floats(), lots) == standing(of_floats(), [records])


def one(program: Any, *lots: list[dict[str, Any]]) -> dict[str, Any]:
    app = rr.App("odd", pages=2)
    program(app.stream("t", schema=SCHEMA)).to("out")
    driver = Driver(app)
    for lot in lots:
        driver.send("t", *lot)
        driver.batch()
    return driver.table("out")[0]


@pytest.mark.parametrize("of", ["stream", "table"])
def test_a_sum_that_64_bits_do_not_hold_is_null_until_they_do(of):
    def program(rows):
        return (
            (rows if of == "stream" else rows.to_table("id"))
            .group_by("g")
            .agg(total=rr.sum("i"), mean=rr.avg("i"), heavy=rr.top("g", weight="i"))
        )

    most = 2**63 - 1
    rows = [{"id": n, "g": 1, "i": most} for n in range(2)]
    assert one(program, rows) == one(program, rows[:1], rows[1:])
    found = one(program, rows)
    assert (found["total"], found["mean"]) == (None, float(most))
    assert found["heavy"] == [{"value": 1, "count": None}]
    less = [{"id": 2, "g": 1, "i": -most}]
    assert one(program, rows[:1], rows[1:], less)["total"] == most
    assert one(program, rows, less)["total"] == most


@pytest.mark.parametrize("of", ["stream", "table"])
def test_a_sum_of_unsigned_numbers_is_exact(of):
    def program(rows):
        rows = rows if of == "stream" else rows.to_table("id")
        return rows.group_by("g").agg(total=rr.sum("u"))

    rows = [{"id": n, "g": 1, "u": 2**64 - 1} for n in range(3)]
    assert one(program, rows[:1], rows[1:])["total"] == 3 * (2**64 - 1)


def test_a_whole_number_of_more_than_38_digits_is_a_dead_letter():
    app = rr.App("odd", pages=2)
    rows = app.stream("t", schema=SCHEMA)
    aggregates = {"least": rr.min("h"), "most": rr.max("h"), "last": rr.last("h")}
    rows.group_by("g").agg(**aggregates).to("out")
    rows.with_columns(h="h * 10").group_by("g", name="computed").agg(**aggregates).to("computed")
    driver = Driver(app)
    longest = 10**38 - 1
    driver.send("t", *({"g": 1, "h": h} for h in (2**127 - 1, longest, -longest, 10**38, 5)))
    driver.batch()
    assert driver.table("out") == [{"g": 1, "least": -longest, "most": longest, "last": 5}]
    assert driver.table("computed") == [{"g": 1, "least": 50, "most": 50, "last": 50}]
    assert driver.status.dead == 4


def test_a_difference_of_windows_is_a_number_below_zero_too_and_null_beyond_64_bits():
    app = rr.App("odd", pages=2)
    rows = app.stream("t", schema="i bigint, u utinyint, at timestamp", time="at")
    rows.with_columns(g="1").group_by("g").window(rr.tumbling("1 hour"), emit="changes").agg(
        i=rr.compared_to("1 hour", rr.max("i")), u=rr.compared_to("1 hour", rr.max("u"))
    ).to("out")
    driver = Driver(app)
    for hour, (i, u) in enumerate([(-(2**63), 9), (2**63 - 1, 3)]):
        driver.send("t", {"at": f"2026-01-01T{hour:02d}:00:00Z", "i": i, "u": u})
        driver.batch()
    last = driver.table("out")[-1]
    assert (last["i_difference"], last["u_difference"]) == (None, -6)
    assert last["i_ratio"] == -1.0
