"""The aggregates: the parts of each, how DuckDB makes them, how they merge, and the result.

Merging is associative, and the rows of a group arrive in canonical order, so that parts made in
readers, merged in pages and merged with state give one result. The way of a part is: `parts_sql`,
`prepared`, then `merged` and `settled` any number of times, then `results`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import polars as pl

from riverrun.kernels import bounded, moments, multisets, sketches
from riverrun.kernels.own_aggregates import kind_of
from riverrun.kernels.parts import (
    FINITE_S,
    ODD,
    SIGNED_N,
    SIGNED_S,
    Aggregation,
    Kind,
    N,
    Part,
    Parts,
    S,
    of_lists,
    with_odd,
    younger,
)
from riverrun.schema import in_range, quoted

ORDER = "{{'at': __at, 'pos': __pos, 'sub': __sub}}"
PLACED = "{{'at': __at, 'pos': __pos, 'sub': __sub, 'value': {x}}}"
COUNTED = "{{'value': {x}, 'n': {sign}::BIGINT}}"
NUMBERED = "{{'value': {x}::DOUBLE, 'n': {sign}::BIGINT}}"
WEIGHED = "{{'value': {x}, 'n': {sign}::BIGINT, 'w': ({weight} * {sign})::{sum}}}"

EXACT_INSTEAD = {
    "first": "rr.min or rr.max",
    "last": "rr.min or rr.max",
    "approx_distinct": "rr.distinct",
    "approx_percentile": "rr.percentile",
    "approx_top": "rr.top",
    "approx_counts": "rr.sum of a condition, or rr.top",
    "max_by": ".top(1, by=…)",
    "min_by": ".bottom(1, by=…)",
    "earliest": "rr.collect",
    "latest": "rr.collect",
    "largest": ".top(n, by=…)",
    "smallest": ".bottom(n, by=…)",
    "distinct_values": "rr.collect",
    "correlation": "rr.collect of both",
}
"""What cannot take rows out again, and what can."""


def _by_place(column: pl.Expr) -> list[pl.Expr]:
    return [column.struct.field(name) for name in ("at", "pos", "sub")]


def _earliest(parts: Parts) -> pl.Expr:
    present = parts["v"].drop_nulls()
    return present.sort_by(_by_place(present)).first()


def _latest(parts: Parts) -> pl.Expr:
    present = parts["v"].drop_nulls()
    return present.sort_by(_by_place(present)).last()


def _in_order(items: pl.Expr) -> pl.Expr:
    return items.list.sort().list.eval(pl.element().struct.field("value"))


def _one(
    from_rows: str, merge: Callable[[pl.Expr], pl.Expr], from_row: str = ""
) -> tuple[Part, ...]:
    return (Part("v", from_rows, lambda parts: merge(parts["v"]), from_row),)


def _list(item: str) -> tuple[Part, ...]:
    single = f"CASE WHEN {{given}} THEN [{item}] ELSE [] END"
    return _one(f"coalesce(list({item}) FILTER ({{given}}), [])", multisets.appended, single)


def _multiset(item: str, result: Callable[[pl.Expr, Aggregation], pl.Expr]) -> Kind:
    settle = of_lists(multisets.settled)
    return Kind(_list(item), lambda p, a: result(p["v"], a), settle, settle)


def _percentile(values: pl.Expr, each: Aggregation) -> pl.Expr:
    single = each.type == "DOUBLE"
    return values.map_batches(
        lambda lists: multisets.percentile(lists, each.fractions, single=single),
        return_dtype=pl.Float64 if single else pl.List(pl.Float64),
    )


def _top(values: pl.Expr, each: Aggregation) -> pl.Expr:
    whole = each.total == "BIGINT"
    return values.map_batches(lambda lists: multisets.top(lists, each.k, whole=whole))


def _binned(values: pl.Expr, each: Aggregation) -> pl.Expr:
    edges = tuple(map(float, each.values))
    return values.map_batches(lambda lists: multisets.binned(lists, edges))


def _counts(cells: pl.Expr, each: Aggregation) -> pl.Expr:
    asked = pl.Series(each.values, dtype=sketches.COUNTABLE[each.argument])
    return cells.map_batches(lambda lists: sketches.counts_of(lists, asked))


def _estimate(sketch: pl.Expr, _: Aggregation) -> pl.Expr:
    return sketch.map_batches(sketches.hll_estimate, return_dtype=pl.Int64)


def _number_of(values: pl.Expr, _: Aggregation) -> pl.Expr:
    return values.list.len().cast(pl.Int64)


def _sum(parts: Parts, each: Aggregation) -> pl.Expr:
    total = with_odd(parts) if "nan" in parts else parts["s"]
    if each.total == "BIGINT":
        # no number is better than a wrong one
        total = total.cast(pl.Int64, strict=False)
    elif each.total == "DOUBLE":
        total = total.cast(pl.Float64)
        total = pl.when(total == 0).then(0.0).otherwise(total)
    return pl.when(parts["n"] > 0).then(total)


def _avg(parts: Parts, each: Aggregation) -> pl.Expr:
    return _sum(parts, each) / parts["n"]


def _rate(parts: Parts, each: Aggregation) -> pl.Expr:
    return _sum(parts, each) / parts["seconds"]


DISTINCT = _multiset(COUNTED, _number_of)
PERCENTILE = _multiset(NUMBERED, _percentile)
TOP = _multiset(COUNTED, _top)
HEAVIEST = _multiset(WEIGHED, _top)
HISTOGRAM = _multiset(COUNTED, _binned)
BOTH = {
    "distinct": DISTINCT, "percentile": PERCENTILE, "top": TOP, "heaviest": HEAVIEST,
    "histogram": HISTOGRAM,
}  # fmt: skip
SPREAD = Kind(moments.MOMENTS, moments.variance)
SIGNED_SPREAD = Kind(moments.SIGNED_MOMENTS, moments.signed_variance, settle=moments.settled)


def _root(kind: Kind) -> Kind:
    return replace(kind, result=lambda p, a: kind.result(p, a).sqrt())


KINDS: dict[str, Kind] = {
    "count": Kind((N,), lambda p, _: p["n"]),
    "sum": Kind((N, S), _sum),
    "avg": Kind((N, S), _avg),
    "min": Kind(_one("min({x})", pl.Expr.min, "{x}"), lambda p, _: p["v"]),
    # NaN is the greatest number, as in DuckDB
    "max": Kind(_one("max({x})", pl.Expr.nan_max, "{x}"), lambda p, _: p["v"]),
    "first": Kind(
        (Part("v", f"arg_min({PLACED}, {ORDER}) FILTER ({{given}})", _earliest),),
        lambda p, _: p["v"].struct.field("value"),
    ),
    "last": Kind(
        (Part("v", f"arg_max({PLACED}, {ORDER}) FILTER ({{given}})", _latest),),
        lambda p, _: p["v"].struct.field("value"),
    ),
    "collect": Kind(_list(PLACED), lambda p, _: _in_order(p["v"])),
    "variance": SPREAD,
    "stddev": _root(SPREAD),
    "correlation": Kind(moments.PAIRS, moments.correlation),
    "rate": Kind((N, S), _rate),
    "row_rate": Kind((N,), lambda p, _: p["n"] / p["seconds"]),
    **BOTH,
    "approx_distinct": Kind(
        _one("coalesce(list({hashed}) FILTER ({given}), [])", pl.Expr.implode),
        lambda p, a: _estimate(p["v"], a),
        of_lists(sketches.hll_of_values),
        of_lists(sketches.hll_united),
    ),
    "approx_percentile": Kind(
        _list(NUMBERED),
        lambda p, a: _percentile(p["v"], a),
        of_lists(multisets.settled),
        of_lists(sketches.quantiles_settled),
    ),
    "approx_top": Kind(
        _list(COUNTED),
        lambda p, a: _top(p["v"], a),
        of_lists(multisets.settled),
        of_lists(sketches.frequent_settled),
    ),
    "approx_counts": Kind(
        _list(COUNTED),
        lambda p, a: _counts(p["v"], a),
        of_lists(sketches.cells_of_values),
        of_lists(multisets.settled),
    ),
}

SIGNED: dict[str, Kind] = {
    "count": Kind((SIGNED_N,), KINDS["count"].result),
    "sum": Kind((SIGNED_N, SIGNED_S), _sum),
    "avg": Kind((SIGNED_N, SIGNED_S), _avg),
    "min": _multiset(COUNTED, lambda v, _: multisets.smallest(v)),
    "max": _multiset(COUNTED, lambda v, _: multisets.largest(v)),
    "collect": _multiset(COUNTED, lambda v, _: v.map_batches(multisets.every)),
    "variance": SIGNED_SPREAD,
    "stddev": _root(SIGNED_SPREAD),
    "rate": Kind((SIGNED_N, SIGNED_S), _rate),
    "row_rate": Kind((SIGNED_N,), KINDS["row_rate"].result),
    **BOTH,
}
"""The same over the rows of a table, which come and go."""

WHOLE = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT",
         "UINTEGER", "UBIGINT")  # fmt: skip
"""Types whose sums are exact."""
FLOATS = ("FLOAT", "DOUBLE")
SIGNED_FLOATS: dict[str, Kind] = {
    "sum": Kind((SIGNED_N, FINITE_S, *ODD), _sum),
    "avg": Kind((SIGNED_N, FINITE_S, *ODD), _avg),
    "rate": Kind((SIGNED_N, FINITE_S, *ODD), _rate),
}
"""Over numbers of a table that may be infinite, or none."""
AS_GIVEN = ("count", "first", "last", "sum", "avg", "rate", "variance", "stddev", "max_by",
            "min_by", "earliest", "latest", "correlation")  # fmt: skip
"""What tells 0.0 and -0.0 apart, or adds them up; to others they are one value."""
LONG = re.compile(r"U?HUGEINT|DECIMAL\((19|[23].)")
"""Numbers whose sum DuckDB may find too large."""


def _kind(aggregation: Aggregation) -> Kind:
    kind = _plain_kind(aggregation)
    return kind if aggregation.since is None else younger(kind)


def _plain_kind(aggregation: Aggregation) -> Kind:
    name = aggregation.kind
    if aggregation.own is not None:
        return kind_of(aggregation.own, signed=aggregation.signed)
    if name in bounded.NAMES:
        return bounded.kind_of(aggregation)
    if name == "top" and aggregation.weight is not None:
        name = "heaviest"
    elif name == "rate" and aggregation.expression is None:
        name = "row_rate"
    if not aggregation.signed:
        return KINDS[name]
    floats = aggregation.argument in FLOATS and name in SIGNED_FLOATS
    return (SIGNED_FLOATS if floats else SIGNED)[name]


def parts_sql(aggregations: tuple[Aggregation, ...], *, signed: bool = False) -> list[str]:
    """SQL that makes the parts of all aggregates from the rows of a group.

    `signed`: rows are changes of a table, which count as their column `__op` says.
    """
    assert all(each.signed == signed for each in aggregations)
    return [
        f"{_sql(each, part.from_rows)} AS {quoted(_kind(each).columns(each.kept_as)[part.suffix])}"
        for each in aggregations
        for part in _kind(each).parts
    ]


def single_sql(aggregations: tuple[Aggregation, ...]) -> list[str] | None:
    """SQL that makes the parts of each row by itself; None if an aggregate needs a group."""
    parts = [(each, part) for each in aggregations for part in _kind(each).parts]
    if not all(part.from_row for _, part in parts):
        return None
    return [
        f"{_sql(each, part.from_row)} AS {quoted(_kind(each).columns(each.kept_as)[part.suffix])}"
        for each, part in parts
    ]


def _sql(aggregation: Aggregation, template: str) -> str:
    x = "*" if aggregation.expression is None else _value(aggregation)
    of = aggregation.total if aggregation.weight else aggregation.argument
    # beyond 64 bits, so that no sum wraps on its way
    wide = "HUGEINT" if of in (*WHOLE, "HUGEINT") else "DOUBLE"
    return template.format(
        x=x,
        given=_given(x, aggregation),
        other=f"({aggregation.other})",
        sign="__op" if aggregation.signed else "1",
        sum=wide,
        weight=f"coalesce(({aggregation.weight})::{wide}, 0)",
        hashed=sketches.hashed_sql(x, aggregation.argument),
    )


def _given(x: str, aggregation: Aggregation) -> str:
    if aggregation.expression is None:
        return "true"
    other = "" if aggregation.other is None else f" AND ({aggregation.other}) IS NOT NULL"
    return f"{x} IS NOT NULL{other}"


def _value(aggregation: Aggregation) -> str:
    """The argument, such that equal values are the same, and can be added up."""
    x, type = f"({aggregation.expression})", aggregation.argument
    if aggregation.kind == "histogram":  # the number of the bin
        edges = (f"({x} >= {edge!r}::DOUBLE)::BIGINT" for edge in aggregation.values)
        return f"({' + '.join(edges)})"
    if type in FLOATS and aggregation.kind not in AS_GIVEN:
        return x if aggregation.kind == "collect" and not aggregation.signed else f"({x} + 0)"
    if aggregation.total == "DOUBLE" and LONG.match(type or ""):
        return f"{x}::DOUBLE"
    return in_range(x, type or "")


def prepared(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    """Parts as they travel, from those that the SQL made."""
    for each in aggregations:
        kind = _kind(each)
        if kind.prepare:
            rows = kind.prepare(rows, kind.columns(each.kept_as))
    return rows


def merged(aggregations: tuple[Aggregation, ...]) -> list[pl.Expr]:
    """Expressions that merge the parts of a group's rows."""
    return list(_merged(aggregations))


@lru_cache(maxsize=256)
def _merged(aggregations: tuple[Aggregation, ...]) -> tuple[pl.Expr, ...]:
    made = []
    for each in aggregations:
        columns = _kind(each).columns(each.kept_as)
        parts = {suffix: pl.col(column) for suffix, column in columns.items()}
        made += [part.merge(parts).alias(columns[part.suffix]) for part in _kind(each).parts]
    return tuple(made)


def settled(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    """Merged parts in the form that is kept."""
    for each in aggregations:
        kind = _kind(each)
        if kind.settle:
            rows = kind.settle(rows, kind.columns(each.kept_as))
    return rows


def results(aggregations: tuple[Aggregation, ...], seconds: pl.Expr | None = None) -> list[pl.Expr]:
    """Expressions that turn parts into result columns; `seconds` is the length of the window."""
    made = []
    for each in aggregations:
        columns = _kind(each).columns(each.kept_as)
        parts = {suffix: pl.col(column) for suffix, column in columns.items()}
        if seconds is not None:
            parts["seconds"] = seconds
        made.append(_kind(each).result(parts, each).alias(each.name))
    return made


def part_columns(aggregations: tuple[Aggregation, ...]) -> list[str]:
    """The columns of all parts, in the order in which rows have them."""
    return [
        column for each in aggregations for column in _kind(each).columns(each.kept_as).values()
    ]


def as_kept(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    """The parts that the SQL made of one group, as they are in state."""
    made = prepared(rows, aggregations).group_by(pl.lit(0).alias("__group"))
    return settled(made.agg(*merged(aggregations)).drop("__group"), aggregations)
