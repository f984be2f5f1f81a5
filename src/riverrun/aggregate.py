"""Windows and aggregates, as a program names them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from riverrun.errors import Location, ProgramError, caller
from riverrun.event_time import Duration, microseconds
from riverrun.kernels import sql
from riverrun.kernels.aggregates import KINDS
from riverrun.program import Aggregation
from riverrun.schema import Schema


@dataclass(frozen=True)
class Agg:
    """An aggregate over an SQL expression, before it has a name."""

    kind: Literal["count", "sum", "avg", "min", "max", "first", "last", "collect"]
    expression: str | None = None
    period: Duration | None = None
    """How far back is the window that the result is compared with."""


def count(expression: str | None = None) -> Agg:
    """Rows, or rows where the expression is not null."""
    return Agg("count", expression)


def sum(expression: str) -> Agg:  # noqa: A001 - rr.sum reads as SQL's
    """The sum; null when there is no value."""
    return Agg("sum", expression)


def avg(expression: str) -> Agg:
    """The average; null when there is no value."""
    return Agg("avg", expression)


def min(expression: str) -> Agg:  # noqa: A001
    """The smallest value."""
    return Agg("min", expression)


def max(expression: str) -> Agg:  # noqa: A001
    """The largest value."""
    return Agg("max", expression)


def first(expression: str) -> Agg:
    """The first value that is not null, by event time."""
    return Agg("first", expression)


def last(expression: str) -> Agg:
    """The last value that is not null, by event time."""
    return Agg("last", expression)


def collect(expression: str) -> Agg:
    """All values that are not null, as a list in order of event time."""
    return Agg("collect", expression)


def compared_to(period: Duration, agg: Agg) -> Agg:
    """The aggregate, and the same of the window a period earlier, the difference and the ratio.

    `agg(orders=rr.compared_to("7 days", rr.count()))` gives the columns orders, orders_earlier,
    orders_difference and orders_ratio.
    """
    at = caller()
    if not isinstance(agg, Agg):
        raise ProgramError(
            "compared_to needs an aggregate",
            where=at,
            got=repr(agg),
            hint='rr.compared_to("7 days", rr.count())',
        )
    if microseconds(period, at) <= 0:
        raise ProgramError("a period to compare with is above zero", where=at, got=repr(period))
    return replace(agg, period=period)


def is_number(type: str) -> bool:
    return bool(re.match(r"\w*INT|DOUBLE|FLOAT|DECIMAL", type))


def aggregation(name: str, agg: Agg, schema: Schema, at: Location) -> Aggregation:
    if not isinstance(agg, Agg):
        raise ProgramError(
            f"{name!r} is not an aggregate",
            where=at,
            got=repr(agg),
            hint="e.g. rr.count(), rr.sum('x')",
        )
    period = microseconds(agg.period, at) if agg.period is not None else 0
    if agg.expression is None:
        return Aggregation(name, agg.kind, None, KINDS[agg.kind].type("BIGINT"), period)
    text = schema.expression(agg.expression)
    argument = sql.type_of(text, schema, at)
    if agg.kind in ("sum", "avg") and not re.match(
        r"\w*INT|DOUBLE|FLOAT|DECIMAL|BOOLEAN", argument
    ):
        raise ProgramError(
            f"{agg.kind} needs a number", where=at, got=f"{agg.expression} is {argument}"
        )
    if agg.kind in ("min", "max") and re.search(r"\]$|^(STRUCT|MAP|UNION)", argument):
        raise ProgramError(
            f"{agg.kind} needs a value that can be ordered",
            where=at,
            got=f"{agg.expression} is {argument}",
        )
    return Aggregation(name, agg.kind, text, KINDS[agg.kind].type(argument), period)
