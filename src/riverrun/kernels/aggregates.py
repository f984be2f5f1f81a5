"""The aggregates: the parts of each, how DuckDB makes them, how they merge, and the result.

A part is one column. Merging is associative, and the rows of a group arrive in canonical order,
so that parts made in readers, merged in pages and merged with state give one result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from riverrun.program import Aggregation
from riverrun.schema import quoted

ORDER = "{{'at': __at, 'pos': __pos, 'sub': __sub}}"
PLACED = "{{'at': __at, 'pos': __pos, 'sub': __sub, 'value': {x}}}"


@dataclass(frozen=True)
class Part:
    """One column of an accumulator."""

    suffix: str
    from_rows: str
    """SQL over the rows of a group; `{x}` is the argument."""
    merge: Callable[[pl.Expr], pl.Expr]


@dataclass(frozen=True)
class Kind:
    """What an aggregate is made of."""

    parts: tuple[Part, ...]
    result: Callable[[dict[str, pl.Expr]], pl.Expr]
    type: Callable[[str], str]
    """The result's type from the argument's."""


def _sum(column: pl.Expr) -> pl.Expr:
    return column.sum()


def _by_place(column: pl.Expr) -> list[pl.Expr]:
    return [column.struct.field(name) for name in ("at", "pos", "sub")]


def _earliest(column: pl.Expr) -> pl.Expr:
    present = column.drop_nulls()
    return present.sort_by(_by_place(present)).first()


def _latest(column: pl.Expr) -> pl.Expr:
    present = column.drop_nulls()
    return present.sort_by(_by_place(present)).last()


def _appended(column: pl.Expr) -> pl.Expr:
    return column.list.explode(keep_nulls=False, empty_as_null=False).implode()


def _in_order(items: pl.Expr) -> pl.Expr:
    return items.list.sort().list.eval(pl.element().struct.field("value"))


def _summed_type(argument: str) -> str:
    whole = argument in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "BOOLEAN", "UTINYINT",
                         "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")  # fmt: skip
    return "BIGINT" if whole else "DOUBLE"


N = Part("n", "count({x})", _sum)

KINDS: dict[str, Kind] = {
    "count": Kind((N,), lambda p: p["n"], lambda _: "BIGINT"),
    "sum": Kind(
        (N, Part("s", "coalesce(sum({x}), 0)::{type}", _sum)),
        lambda p: pl.when(p["n"] > 0).then(p["s"]),
        _summed_type,
    ),
    "avg": Kind(
        (N, Part("s", "coalesce(sum({x}), 0)::DOUBLE", _sum)),
        lambda p: pl.when(p["n"] > 0).then(p["s"] / p["n"]),
        lambda _: "DOUBLE",
    ),
    "min": Kind((Part("v", "min({x})", pl.Expr.min),), lambda p: p["v"], lambda t: t),
    "max": Kind((Part("v", "max({x})", pl.Expr.max),), lambda p: p["v"], lambda t: t),
    "first": Kind(
        (Part("v", f"arg_min({PLACED}, {ORDER}) FILTER ({{x}} IS NOT NULL)", _earliest),),
        lambda p: p["v"].struct.field("value"),
        lambda t: t,
    ),
    "last": Kind(
        (Part("v", f"arg_max({PLACED}, {ORDER}) FILTER ({{x}} IS NOT NULL)", _latest),),
        lambda p: p["v"].struct.field("value"),
        lambda t: t,
    ),
    "collect": Kind(
        (Part("v", f"coalesce(list({PLACED}) FILTER ({{x}} IS NOT NULL), [])", _appended),),
        lambda p: _in_order(p["v"]),
        lambda t: f"{t}[]",
    ),
}


def parts_sql(aggregations: tuple[Aggregation, ...], *, signed: bool = False) -> list[str]:
    """SQL that makes the parts of all aggregates from the rows of a group."""
    return [
        f"{_from_rows(each, part)} AS {quoted(_column(each, part))}"
        for each in aggregations
        for part in KINDS[each.kind].parts
    ]


def _from_rows(aggregation: Aggregation, part: Part) -> str:
    return part.from_rows.format(x=_argument(aggregation), type=aggregation.type)


def _argument(aggregation: Aggregation) -> str:
    return "*" if aggregation.expression is None else f"({aggregation.expression})"


def _column(aggregation: Aggregation, part: Part) -> str:
    return f"__{aggregation.name}__{part.suffix}"


def merged(aggregations: tuple[Aggregation, ...]) -> list[pl.Expr]:
    """Expressions that merge the parts of a group's rows."""
    return [
        part.merge(pl.col(_column(each, part))).alias(_column(each, part))
        for each in aggregations
        for part in KINDS[each.kind].parts
    ]


def prepared(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    return rows


def settled(rows: pl.DataFrame, aggregations: tuple[Aggregation, ...]) -> pl.DataFrame:
    return rows


def results(aggregations: tuple[Aggregation, ...], seconds: pl.Expr | None = None) -> list[pl.Expr]:
    """Expressions that turn parts into result columns."""
    return [
        KINDS[each.kind]
        .result({p.suffix: pl.col(_column(each, p)) for p in KINDS[each.kind].parts})
        .alias(each.name)
        for each in aggregations
    ]
