"""Aggregates, as a program names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from riverrun.arguments import checked
from riverrun.durations import Duration, microseconds
from riverrun.errors import ProgramError, caller
from riverrun.kernels.sketches import FREQUENT
from riverrun.own_aggregates import Aggregate

MOST = FREQUENT
"""As many values are kept for approx_top."""


@dataclass(frozen=True)
class Agg:
    """An aggregate over an SQL expression, before it has a name."""

    kind: str
    expression: str | None = None
    fractions: tuple[float, ...] = ()
    listed: bool = False
    """Whether the result is a list of percentiles."""
    k: int = 0
    weight: str | None = None
    other: str | None = None
    """A second expression."""
    values: tuple[str | int | float | bool, ...] = ()
    period: int = 0
    """Microseconds to the earlier window that the result is compared with."""
    falls: bool = False
    """Whether a window without rows is compared, too."""
    own: Aggregate | None = None
    """The user's own, if it is one."""


@checked
def count(expression: str | None = None) -> Agg:
    """Rows, or rows where the expression is not null."""
    return Agg("count", expression)


@checked
def sum(expression: str) -> Agg:  # noqa: A001 - rr.sum reads as SQL's
    """The sum; null when there is no value, and of whole numbers where 64 bits do not hold it."""
    return Agg("sum", expression)


@checked
def avg(expression: str) -> Agg:
    """The average; null when there is no value."""
    return Agg("avg", expression)


@checked
def min(expression: str) -> Agg:  # noqa: A001
    """The smallest value."""
    return Agg("min", expression)


@checked
def max(expression: str) -> Agg:  # noqa: A001
    """The largest value."""
    return Agg("max", expression)


@checked
def first(expression: str) -> Agg:
    """The first value that is not null, by event time."""
    return Agg("first", expression)


@checked
def last(expression: str) -> Agg:
    """The last value that is not null, by event time."""
    return Agg("last", expression)


@checked
def collect(expression: str) -> Agg:
    """All values that are not null, as a list in order of event time."""
    return Agg("collect", expression)


@checked
def variance(expression: str) -> Agg:
    """The variance of a sample; null for fewer than two values."""
    return Agg("variance", expression)


@checked
def stddev(expression: str) -> Agg:
    """The standard deviation of a sample; null for fewer than two values."""
    return Agg("stddev", expression)


@checked
def distinct(expression: str) -> Agg:
    """How many different values there are, exactly."""
    return Agg("distinct", expression)


@checked
def median(expression: str) -> Agg:
    """The value in the middle, exactly."""
    return Agg("percentile", expression, fractions=(0.5,))


@checked
def percentile(expression: str, fraction: float | Sequence[float]) -> Agg:
    """An exact percentile, e.g. `percentile("ms", 0.95)`, or a list of them for a list."""
    return _percentile("percentile", expression, fraction)


@checked
def top(expression: str, k: int = 10, *, weight: str | None = None) -> Agg:
    """The k most frequent values, exactly; or those with the highest sum of `weight`."""
    return Agg("top", expression, k=_k(k), weight=weight)


@checked
def max_by(expression: str, by: str) -> Agg:
    """The value in the row where `by` is greatest; of equal ones the first by event time."""
    return Agg("max_by", expression, other=by)


@checked
def min_by(expression: str, by: str) -> Agg:
    """The value in the row where `by` is smallest; of equal ones the first by event time."""
    return Agg("min_by", expression, other=by)


@checked
def earliest(expression: str, k: int = 10) -> Agg:
    """The first k values that are not null, by event time."""
    return Agg("earliest", expression, k=_k(k))


@checked
def latest(expression: str, k: int = 10) -> Agg:
    """The last k values that are not null, by event time."""
    return Agg("latest", expression, k=_k(k))


@checked
def largest(expression: str, k: int = 10) -> Agg:
    """The k largest values, the largest first."""
    return Agg("largest", expression, k=_k(k))


@checked
def smallest(expression: str, k: int = 10) -> Agg:
    """The k smallest values, the smallest first."""
    return Agg("smallest", expression, k=_k(k))


@checked
def distinct_values(expression: str, k: int = 1000) -> Agg:
    """The different values, in their order; of more than k of them the smallest."""
    return Agg("distinct_values", expression, k=_k(k))


@checked
def correlation(expression: str, other: str) -> Agg:
    """Pearson's correlation of two numbers, over rows that have both; null where one of them does
    not vary."""
    return Agg("correlation", expression, other=other)


@checked
def histogram(expression: str, edges: Sequence[float]) -> Agg:
    """How many values are in each bin. Those from one edge up to the next are in one bin; the first
    is below the first edge, the last from the last edge on."""
    rising = isinstance(edges, list | tuple) and all(type(e) in (int, float) for e in edges)
    if not rising or not edges or list(edges) != sorted({float(e) for e in edges}):
        raise ProgramError(
            "a histogram needs the edges of its bins, in rising order",
            where=caller(),
            got=repr(edges),
            hint='e.g. rr.histogram("ms", [10, 100, 1000])',
        )
    return Agg("histogram", expression, values=tuple(map(float, edges)))


@checked
def rate(expression: str | None = None) -> Agg:
    """Rows, or the sum of the expression, per second of the window."""
    return Agg("rate", expression)


@checked
def approx_distinct(expression: str) -> Agg:
    """About how many different values there are: a standard error of 1.6 %."""
    return Agg("approx_distinct", expression)


@checked
def approx_percentile(expression: str, fraction: float | Sequence[float]) -> Agg:
    """A percentile with a rank error of about 1.33 %, or a list of them for a list."""
    return _percentile("approx_percentile", expression, fraction)


@checked
def approx_top(expression: str, k: int = 10) -> Agg:
    """The k most frequent values; a count is at most rows / 1025 too low."""
    return Agg("approx_top", expression, k=_k(k))


@checked
def approx_counts(expression: str, of: Sequence[str | int | float | bool]) -> Agg:
    """How often each of the values `of` is there; about 0.5 % of the rows too high at most."""
    listed = isinstance(of, Sequence) and not isinstance(of, str | bytes)
    if not listed or not of or not all(isinstance(each, str | int | float) for each in of):
        raise ProgramError(
            "approx_counts needs the values to count",
            where=caller(),
            got=repr(of),
            hint='e.g. rr.approx_counts("page", of=["/a", "/b"])',
        )
    return Agg("approx_counts", expression, values=tuple(of))


@checked
def compared_to(period: Duration, agg: Agg | Aggregate, *, falls: bool = False) -> Agg:
    """The aggregate, and the same of the window a period earlier, the difference and the ratio.

    `agg(orders=rr.compared_to("7 days", rr.count()))` gives the columns orders, orders_earlier,
    orders_difference and orders_ratio. With `falls` a key has a row also where it had some in the
    earlier window, and has none now: counts and sums are 0, all else is null.
    """
    at = caller()
    agg = plain(agg)
    if not isinstance(agg, Agg):
        raise ProgramError(
            "compared_to needs an aggregate",
            where=at,
            got=repr(agg),
            hint='rr.compared_to("7 days", rr.count())',
        )
    if agg.period:
        raise ProgramError(
            "an aggregate is compared once",
            where=at,
            hint="give each comparison a name of its own: agg(day=…, week=…)",
        )
    back = microseconds(period, at)
    if back <= 0:
        raise ProgramError("a period to compare with is above zero", where=at, got=repr(period))
    return replace(agg, period=back, falls=falls)


def plain(agg: Agg | Aggregate) -> Agg:
    return Agg("own", own=agg) if isinstance(agg, Aggregate) else agg


def _percentile(kind: str, expression: str, fraction: float | Sequence[float]) -> Agg:
    listed = not isinstance(fraction, int | float)
    fractions = tuple(fraction) if isinstance(fraction, list | tuple) else (fraction,)
    numbers = all(type(each) in (int, float) and 0 <= each <= 1 for each in fractions)
    if not fractions or not numbers:
        raise ProgramError(
            "a percentile is a number from 0 to 1, or a list of them",
            where=caller(),
            got=repr(fraction),
            hint='e.g. rr.percentile("ms", 0.95)',
        )
    return Agg(kind, expression, fractions=tuple(map(float, fractions)), listed=listed)


def _k(k: int) -> int:
    if not isinstance(k, int) or not 1 <= k <= MOST:
        raise ProgramError(f"k is a whole number from 1 to {MOST}", where=caller(), got=repr(k))
    return k
