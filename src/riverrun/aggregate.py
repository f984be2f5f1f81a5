"""Aggregates, as a program names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from riverrun.arguments import checked
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels import sql
from riverrun.kernels.aggregates import EXACT_INSTEAD, SIGNED, WHOLE
from riverrun.kernels.parts import Aggregation, compared_names
from riverrun.kernels.sketches import COUNTABLE, FREQUENT, refuse_without_datasketches
from riverrun.own_aggregates import Aggregate, checked_own
from riverrun.schema import RESERVED, Column, Schema

NUMBER = r"(\w*INT|INTEGER|UINTEGER|DOUBLE|FLOAT|DECIMAL.*|BOOLEAN)(?<!\])"
NUMERIC = ("sum", "avg", "variance", "stddev", "rate", "percentile", "approx_percentile")
ORDERED = ("min", "max", "distinct", "top", "approx_distinct", "approx_top")
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
    values: tuple[str | int | float | bool, ...] = ()
    period: int = 0
    """Microseconds to the earlier window that the result is compared with."""
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
def compared_to(period: Duration, agg: Agg | Aggregate) -> Agg:
    """The aggregate, and the same of the window a period earlier, the difference and the ratio.

    `agg(orders=rr.compared_to("7 days", rr.count()))` gives the columns orders, orders_earlier,
    orders_difference and orders_ratio.
    """
    at = caller()
    agg = _plain(agg)
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
    return replace(agg, period=back)


def _plain(agg: Agg | Aggregate) -> Agg:
    return Agg("own", own=agg) if isinstance(agg, Aggregate) else agg


def is_number(type: str) -> bool:
    return bool(re.fullmatch(NUMBER, type)) and type != "BOOLEAN"


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


def aggregation(
    name: str,
    agg: Agg | Aggregate,
    schema: Schema,
    at: Location,
    *,
    step: str = "",
    signed: bool = False,
    windowed: bool = True,
) -> Aggregation:
    """The aggregate over these columns, checked; `signed` is over the rows of a table."""
    agg = _plain(agg)
    if not isinstance(agg, Agg):
        raise ProgramError(
            f"{name!r} is not an aggregate",
            where=at,
            got=repr(agg),
            hint="e.g. rr.count(), rr.sum('x')",
        )
    if agg.own is not None:
        own = checked_own(agg.own, f"aggregate {step} {name}", schema, at, signed=signed)
        taken_of, period = ", ".join(own.expressions), agg.period
        return Aggregation(
            name, own.word, taken_of, own.returns, signed=signed, compared_to=period, own=own
        )
    _refuse_out_of_place(agg, at, signed=signed, windowed=windowed)
    text = None if agg.expression is None else schema.expression(agg.expression)
    argument = None if text is None else sql.value_type(text, schema, at)
    if argument is not None:
        _refuse_type(agg, argument, at, signed=signed)
    weight = None if agg.weight is None else schema.expression(agg.weight)
    total = _total_type(agg, argument, weight and sql.type_of(weight, schema, at), at)
    return Aggregation(
        name=name,
        kind=agg.kind,
        expression=text,
        type=_result_type(agg, argument or "BIGINT", total),
        argument=argument,
        total=total,
        signed=signed,
        fractions=agg.fractions,
        k=agg.k,
        weight=weight,
        values=_checked_values(agg, argument, at),
        compared_to=agg.period,
    )


def _refuse_out_of_place(agg: Agg, at: Location, *, signed: bool, windowed: bool) -> None:
    if agg.kind == "rate" and not windowed:
        raise ProgramError(
            "rate needs a window",
            where=at,
            hint='e.g. .window(rr.tumbling("1 minute")).agg(…)',
        )
    if signed and agg.kind not in SIGNED:
        raise ProgramError(
            f"{agg.kind} cannot be taken of a table, whose rows come and go",
            where=at,
            hint=f"use {EXACT_INSTEAD[agg.kind]}",
        )
    if agg.kind == "approx_distinct":
        refuse_without_datasketches(at)


def _refuse_type(agg: Agg, argument: str, at: Location, *, signed: bool) -> None:
    got = f"{agg.expression} is {argument}"
    if agg.kind in NUMERIC and not re.fullmatch(NUMBER, argument):
        raise ProgramError(f"{agg.kind} needs a number", where=at, got=got)
    if (agg.kind in ORDERED or (signed and agg.kind == "collect")) and re.search(
        r"\]$|^(STRUCT|MAP|UNION)", argument
    ):
        raise ProgramError(f"{agg.kind} needs a value that can be ordered", where=at, got=got)
    if agg.kind == "approx_counts" and argument not in COUNTABLE:
        raise ProgramError(
            "approx_counts needs text, a whole number, a double or a boolean",
            where=at,
            got=got,
            hint="cast it, e.g. to varchar",
        )


def _total_type(agg: Agg, argument: str | None, weight: str | None, at: Location) -> str | None:
    if agg.kind == "sum" and argument:
        return _summed_type(argument)
    if weight is None:
        return "DOUBLE" if agg.kind in NUMERIC else None
    if not re.fullmatch(NUMBER, weight):
        raise ProgramError("a weight is a number", where=at, got=f"{agg.weight} is {weight}")
    return _summed_type(weight)


def _summed_type(argument: str) -> str:
    if argument == "UBIGINT":
        return "HUGEINT"
    return "BIGINT" if argument in WHOLE else "DOUBLE"


def _result_type(agg: Agg, argument: str, total: str | None) -> str:
    match agg.kind:
        case "count" | "distinct" | "approx_distinct":
            return "BIGINT"
        case "sum" | "avg" | "variance" | "stddev" | "rate":
            return total or "DOUBLE"
        case "percentile" | "approx_percentile":
            return "DOUBLE[]" if agg.listed else "DOUBLE"
        case "collect":
            return f"{argument}[]"
        case "top" | "approx_top" | "approx_counts":
            return f'STRUCT("value" {argument}, count {total or "BIGINT"})[]'
        case "min" | "max" | "first" | "last":
            return argument
        case _:
            raise ValueError(f"no such aggregate: {agg.kind}")


def _checked_values(
    agg: Agg, argument: str | None, at: Location
) -> tuple[str | int | float | bool, ...]:
    """The values asked for, as the type of the expression has them."""
    # any other: a whole number, as COUNTABLE has it
    wanted = {"VARCHAR": str, "BOOLEAN": bool, "DOUBLE": float}.get(argument or "", int)
    floats = wanted is float
    # -0.0 is counted as 0.0
    made = tuple(v + 0.0 if floats and type(v) in (int, float) else v for v in agg.values)  # type: ignore[operator]
    for value in made:
        if type(value) is not wanted:
            raise ProgramError(
                f"a value to count is not a {argument}",
                where=at,
                got=repr(value),
                hint=f"{agg.expression} is {argument}",
            )
    return made


def result_columns(each: Aggregation) -> tuple[Column, ...]:
    column = Column(each.name, each.type)
    if not each.compared_to:
        return (column,)
    earlier, difference, ratio = compared_names(each.name)
    return (
        column,
        Column(earlier, each.type),
        Column(difference, "BIGINT" if each.type in WHOLE else each.type),
        Column(ratio, "DOUBLE"),
    )


def refuse_clash(columns: tuple[Column, ...], at: Location) -> None:
    lower = [column.name.lower() for column in columns]
    for name in (column.name for column in columns):
        if lower.count(name.lower()) > 1 or name.startswith(RESERVED):
            raise ProgramError(
                f"the name {name!r} is taken",
                where=at,
                hint="choose another name for the aggregate",
            )
