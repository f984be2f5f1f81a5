"""Variance from counts, sums and squared distances from the mean, merged by Chan's formula.

Rows of a table come and go. Those that came and those that went are kept apart in what is made from
rows: as many of each would leave no mean to speak of. As soon as more came than went, `settled`
makes one of both.

Values whose squares are no numbers are counted, and leave no trace in the others: once they are
taken out again, the variance of what is left is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from riverrun.kernels.parts import Aggregation, Part, Parts, total

GONE = "gone_"
LARGEST = 1e150
"""Whose square still is a number."""


@dataclass(frozen=True)
class Moments:
    """Count, sum, and squared distances from the mean."""

    n: pl.Expr
    s: pl.Expr
    m2: pl.Expr

    def around(self, mean: pl.Expr) -> pl.Expr:
        """The squared distances from another mean."""
        moved = self.n * (self.s / self.n - mean) ** 2
        return self.m2 + pl.when(self.n != 0).then(moved).otherwise(0.0)


def _moments(parts: Parts, prefix: str = "") -> Moments:
    return Moments(parts[f"{prefix}n"], parts[f"{prefix}s"], parts[f"{prefix}m2"])


def _merged_m2(prefix: str) -> Callable[[Parts], pl.Expr]:
    def merge(parts: Parts) -> pl.Expr:
        each = _moments(parts, prefix)
        return each.around(each.s.sum() / each.n.sum()).sum()

    return merge


def _parts(prefix: str = "", condition: str = "") -> tuple[Part, ...]:
    x, where = "{x}::DOUBLE", f" FILTER (abs({{x}}::DOUBLE) < {LARGEST}{condition})"
    odd = f"count({x}) FILTER (NOT abs({x}) < {LARGEST}{condition})"
    return (
        Part(f"{prefix}n", f"count({x}){where}", total(f"{prefix}n")),
        Part(f"{prefix}s", f"coalesce(sum({x}){where}, 0)", total(f"{prefix}s")),
        Part(
            f"{prefix}m2",
            f"coalesce(var_pop({x}){where} * count({x}){where}, 0)",
            _merged_m2(prefix),
        ),
        Part(f"{prefix}odd", odd, total(f"{prefix}odd")),
    )


MOMENTS = _parts()
SIGNED_MOMENTS = (*_parts("", " AND __op > 0"), *_parts(GONE, " AND __op < 0"))


def _merged_products(parts: Parts) -> pl.Expr:
    """The products of distances from both means, from those around the means of each part."""
    n, x, y = parts["n"], parts["x"], parts["y"]
    distances = (x / n - x.sum() / n.sum()) * (y / n - y.sum() / n.sum())
    return (parts["xy"] + pl.when(n > 0).then(n * distances).otherwise(0.0)).sum()


def _merged_squares(of: str) -> Callable[[Parts], pl.Expr]:
    def merge(parts: Parts) -> pl.Expr:
        each = Moments(parts["n"], parts[of], parts[f"{of}2"])
        return each.around(each.s.sum() / each.n.sum()).sum()

    return merge


def _pairs() -> tuple[Part, ...]:
    x, y = "{x}::DOUBLE", "{other}::DOUBLE"
    fit = f"abs({x}) < {LARGEST} AND abs({y}) < {LARGEST}"
    where = f" FILTER ({{given}} AND {fit})"
    return (
        Part("n", f"count(*){where}", total("n")),
        Part("x", f"coalesce(sum({x}){where}, 0)", total("x")),
        Part("y", f"coalesce(sum({y}){where}, 0)", total("y")),
        Part("x2", f"coalesce(var_pop({x}){where} * count(*){where}, 0)", _merged_squares("x")),
        Part("y2", f"coalesce(var_pop({y}){where} * count(*){where}, 0)", _merged_squares("y")),
        Part("xy", f"coalesce(covar_pop({y}, {x}){where} * count(*){where}, 0)", _merged_products),
        Part("odd", f"count(*) FILTER ({{given}} AND NOT ({fit}))", total("odd")),
    )


PAIRS = _pairs()


def correlation(parts: Parts, _: Aggregation) -> pl.Expr:
    """Pearson's, null where one of both does not vary, NaN with values whose squares are none."""
    varies = (parts["x2"] > 0) & (parts["y2"] > 0)
    known = (parts["xy"] / (parts["x2"].sqrt() * parts["y2"].sqrt())).clip(-1.0, 1.0)
    return pl.when(parts["odd"] > 0).then(float("nan")).when(varies).then(known)


def variance(parts: Parts, _: Aggregation) -> pl.Expr:
    """That of a sample; null for fewer than two values."""
    return _variance(_moments(parts), parts["odd"])


def signed_variance(parts: Parts, _: Aggregation) -> pl.Expr:
    return _variance(_left(parts), parts["odd"] - parts[f"{GONE}odd"])


def _variance(all: Moments, odd: pl.Expr) -> pl.Expr:
    # what was taken out again leaves rounding errors, also below zero
    known = all.m2.clip(lower_bound=0) / (all.n - 1)
    return pl.when(all.n + odd > 1).then(pl.when(odd > 0).then(float("nan")).otherwise(known))


def _left(parts: Parts) -> Moments:
    """What came without what went."""
    came, went = _moments(parts), _moments(parts, GONE)
    n, s = came.n - went.n, came.s - went.s
    return Moments(n, s, came.around(s / n) - went.around(s / n))


def settled(rows: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    """Takes out what went, where more came."""
    parts = {suffix: pl.col(name) for suffix, name in columns.items()}
    left = _left(parts)
    more = left.n > 0
    came = {"n": left.n, "s": left.s, "m2": left.m2}
    went = {f"{GONE}{suffix}": parts[suffix] * 0 for suffix in came}
    return rows.with_columns(
        pl.when(more).then(new).otherwise(parts[suffix]).alias(columns[suffix])
        for suffix, new in (came | went).items()
    )
