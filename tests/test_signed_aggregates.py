"""Parts of aggregates, cut and merged at random, against DuckDB over what remains in the end."""

from __future__ import annotations

import random
from datetime import datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import riverrun as rr
from riverrun.aggregation import aggregation
from riverrun.errors import Location
from riverrun.kernels.aggregates import merged, parts_sql, prepared, results, settled
from riverrun.kernels.sql import Evaluator
from riverrun.schema import parse

HERE = Location("program.py", 1)
SCHEMA = parse("g int, x double, i bigint, s string, d decimal(9,2), t timestamp, b boolean")

ARROW = pa.schema(
    [
        ("g", pa.int32()), ("x", pa.float64()), ("i", pa.int64()), ("s", pa.string()),
        ("d", pa.decimal128(9, 2)), ("t", pa.timestamp("us")), ("b", pa.bool_()),
        ("__op", pa.int8()), ("__at", pa.timestamp("us")), ("__pos", pa.int64()),
        ("__sub", pa.int64()),
    ]
)  # fmt: skip

EXACT = {
    "n": (rr.count(), "count(*)"),
    "known": (rr.count("x"), "count(x)"),
    "total": (rr.sum("x"), "sum(x)"),
    "whole": (rr.sum("i"), "sum(i)::BIGINT"),
    "cents": (rr.sum("d"), "sum(d)::DOUBLE"),
    "yes": (rr.sum("b"), "sum(b)::BIGINT"),
    "mean": (rr.avg("i"), "avg(i)"),
    "least": (rr.min("x"), "min(x)"),
    "most": (rr.max("s"), "max(s)"),
    "latest": (rr.max("t"), "max(t)"),
    "spread": (rr.variance("x"), "var_samp(x)"),
    "deviation": (rr.stddev("i"), "stddev_samp(i)"),
    "large": (rr.stddev("i + 1e6"), "stddev_samp(i + 1e6)"),
    "kinds": (rr.distinct("s"), "count(DISTINCT s)"),
    "times": (rr.distinct("t"), "count(DISTINCT t)"),
    "prices": (rr.distinct("d"), "count(DISTINCT d)"),
    "p95": (rr.percentile("x", 0.95), "quantile_cont(x, 0.95)"),
    "ends": (rr.percentile("i", [0, 0.3, 1]), "quantile_cont(i::DOUBLE, [0, 0.3, 1])"),
    "middle": (rr.median("d"), "quantile_cont(d::DOUBLE, 0.5)"),
    "speed": (rr.rate(), "count(*) / 60"),
    "flow": (rr.rate("i"), "sum(i) / 60"),
}
LISTED = {
    "all": (rr.collect("x"), "coalesce(list_sort(list(x) FILTER (x IS NOT NULL)), [])"),
    "words": (rr.collect("s"), "coalesce(list_sort(list(s) FILTER (s IS NOT NULL)), [])"),
}


def row(chance: random.Random) -> dict[str, object]:
    def perhaps(value: object) -> object:
        return None if chance.random() < 0.2 else value

    return {
        "g": chance.randrange(3),
        "x": perhaps(chance.randrange(-40, 40) / 8),
        "i": perhaps(chance.randrange(-5, 5)),
        "s": perhaps(chance.choice("abcd")),
        "d": perhaps(Decimal(chance.randrange(500)) / 100),
        "t": perhaps(datetime(2026, 1, 1, 12, second=chance.randrange(60))),
        "b": perhaps(chance.random() < 0.5),
    }


def relation(rows: list[dict[str, object]]) -> pa.Table:
    hidden = {"__op": 1, "__sub": 0, "__at": None}
    placed = [hidden | {"__pos": place} | each for place, each in enumerate(rows)]
    return pa.Table.from_pylist(placed, schema=ARROW)


def made(aggregates, *, signed=False):
    return tuple(aggregation(n, a, SCHEMA, HERE, signed=signed) for n, a in aggregates.items())


def computed(aggregations, rows, chance, *, signed):
    """Through parts: rows cut into lots, and lots merged in any grouping."""
    evaluator, frames = Evaluator(), []
    query = f"SELECT g, {', '.join(parts_sql(aggregations, signed=signed))} FROM rows GROUP BY g"
    while rows:
        count = chance.randrange(1, 9)
        lot, rows = rows[:count], rows[count:]
        frame = pl.DataFrame(pl.from_arrow(evaluator.run(query, rows=relation(lot))))
        frames.append(prepared(frame, aggregations))
    while len(frames) > 1:
        count = chance.randrange(2, 5)
        some, frames = frames[:count], frames[count:]
        grouped = pl.concat(some).group_by("g", maintain_order=True).agg(*merged(aggregations))
        frames.insert(chance.randrange(len(frames) + 1), settled(grouped, aggregations))
    return frames[0].sort("g").select("g", *results(aggregations, pl.lit(60.0)))


def expected(oracle, rows):
    query = ", ".join(f'{text} AS "{name}"' for name, text in oracle.items())
    found = Evaluator().run(f"SELECT g, {query} FROM rows GROUP BY g ORDER BY g", rows=rows)
    return pl.DataFrame(pl.from_arrow(found))


def changes(chance: random.Random) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Changes of a table in random order, and the rows that are there in the end."""
    rows = [row(chance) for _ in range(chance.randrange(1, 60))]
    gone = chance.sample(rows, chance.randrange(len(rows)))
    signed = [each | {"__op": 1} for each in rows] + [each | {"__op": -1} for each in gone]
    chance.shuffle(signed)
    left = list(rows)
    for each in gone:
        left.remove(each)
    return signed, left


def assert_alike(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    for mine, theirs in zip(found.to_dicts(), wanted.to_dicts(), strict=True):
        for name, value in theirs.items():
            numbers = value if isinstance(value, list) else [value]
            close = all(isinstance(each, float) for each in numbers)
            assert mine[name] == (pytest.approx(value, abs=1e-6) if close else value), name


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_leave_a_table_leave_its_aggregates(seed):
    chance = random.Random(seed)
    signed, left = changes(chance)
    chosen = {name: agg for name, (agg, _) in (EXACT | LISTED).items()}
    found = computed(made(chosen, signed=True), signed, chance, signed=True)
    wanted = expected({n: t for n, (_, t) in (EXACT | LISTED).items()}, relation(left))
    assert_alike(found.filter(pl.col("n") > 0), wanted)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_stream_give_the_same_however_they_are_cut(seed):
    chance = random.Random(seed)
    rows = [row(chance) for _ in range(60)]
    chosen = {name: agg for name, (agg, _) in EXACT.items()}
    found = computed(made(chosen), rows, chance, signed=False)
    assert_alike(found, expected({n: t for n, (_, t) in EXACT.items()}, relation(rows)))


TOP = """
    SELECT g, list({{'value': s, 'count': c}} ORDER BY c DESC, s)[:3] AS top
    FROM (SELECT g, s, {weight} AS c FROM rows WHERE s IS NOT NULL GROUP BY g, s) GROUP BY g
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weight", [None, "i", "x"])
def test_the_top_of_a_table_is_that_of_its_rows(seed, weight):
    chance = random.Random(seed)
    signed, left = changes(chance)
    aggregations = made({"top": rr.top("s", k=3, weight=weight), "n": rr.count()}, signed=True)
    found = computed(aggregations, signed, chance, signed=True)
    sums = f"coalesce(sum({weight}), 0)::{'BIGINT' if weight == 'i' else 'DOUBLE'}"
    query = TOP.format(weight=sums if weight else "count(*)")
    wanted = Evaluator().run(f"{query} ORDER BY g", rows=relation(left)).to_pylist()
    tops = {each["g"]: each["top"] for each in wanted}
    for each in found.filter(pl.col("n") > 0).to_dicts():
        assert each["top"] == tops.get(each["g"], [])


def test_as_many_come_as_go_in_one_lot_and_the_variance_still_holds():
    rows = [{"x": x, "__op": op} for x, op in [(1.0, 1), (2.0, 1), (4.0, 1), (2.0, -1), (9.0, 1)]]
    rows = [{c.name: None for c in SCHEMA.columns} | {"g": 1} | each for each in rows]
    aggregations = made({"v": rr.variance("x")}, signed=True)
    query = f"SELECT g, {', '.join(parts_sql(aggregations, signed=True))} FROM rows GROUP BY g"
    lots = [rows[:3], rows[3:]]
    frames = [pl.from_arrow(Evaluator().run(query, rows=relation(lot))) for lot in lots]
    together = pl.concat(frames).group_by("g").agg(*merged(aggregations))
    found = settled(together, aggregations).select(results(aggregations))["v"][0]
    assert found == pytest.approx(pl.Series([1.0, 4.0, 9.0]).var())


@pytest.mark.parametrize("kind", ["rolling", "group_by"])
def test_parts_merge_in_every_grouping_of_polars(kind):
    pytest.importorskip("datasketches", reason="has no build for Python 3.14 yet")
    every = {name: agg for name, (agg, _) in EXACT.items()}
    every |= {"first": rr.first("x"), "about": rr.approx_distinct("i"), "top": rr.approx_top("s")}
    every |= {"q": rr.approx_percentile("x", 0.5), "of": rr.approx_counts("s", of=["a"])}
    aggregations = made(every)
    rows = [row(random.Random(seed)) for seed in range(30)]
    query = f"SELECT g, {', '.join(parts_sql(aggregations))} FROM rows GROUP BY g ORDER BY g"
    parts = pl.DataFrame(pl.from_arrow(Evaluator().run(query, rows=relation(rows))))
    parts = prepared(parts, aggregations).with_columns(pl.col("g").cast(pl.Int64))
    groups = parts.rolling("g", period="1i") if kind == "rolling" else parts.group_by("g")
    again = settled(groups.agg(*merged(aggregations)), aggregations).sort("g")
    assert again.schema == parts.schema
    shown = results(aggregations, pl.lit(1.0))
    assert again.select(shown).equals(parts.select(shown), null_equal=True)


def test_plain_aggregates_pass_as_they_are():
    plain = {"n": rr.count(), "s": rr.sum("x"), "a": rr.avg("x"), "m": rr.min("x")}
    rows = pl.DataFrame({"g": [1]})
    assert prepared(rows, made(plain)) is rows
    assert settled(rows, made(plain)) is rows


REFUSED = {
    "first": (rr.first("x"), "rr.min or rr.max"),
    "last": (rr.last("x"), "rr.min or rr.max"),
    "approx_distinct": (rr.approx_distinct("x"), "rr.distinct"),
    "approx_percentile": (rr.approx_percentile("x", 0.5), "rr.percentile"),
    "approx_top": (rr.approx_top("x"), "rr.top"),
    "approx_counts": (rr.approx_counts("s", of=["a"]), "rr.top"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_take_rows_out_is_refused_for_a_table(kind):
    agg, instead = REFUSED[kind]
    with pytest.raises(rr.ProgramError, match=f"{kind} cannot be taken of a table") as error:
        aggregation("n", agg, SCHEMA, HERE, signed=True)
    assert instead in error.value.hint
    assert error.value.where == HERE
