"""What a program asks of an aggregate, checked against the columns that it is over."""

from __future__ import annotations

import re

from riverrun.aggregate import Agg, plain
from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.aggregates import EXACT_INSTEAD, SIGNED, WHOLE
from riverrun.kernels.parts import Aggregation, compared_names
from riverrun.kernels.sketches import COUNTABLE, refuse_without_datasketches
from riverrun.own_aggregates import Aggregate, checked_own
from riverrun.schema import RESERVED, Column, Schema

NUMBER = r"(\w*INT|INTEGER|UINTEGER|DOUBLE|FLOAT|DECIMAL.*|BOOLEAN)(?<!\])"
NUMERIC = ("sum", "avg", "variance", "stddev", "rate", "percentile", "approx_percentile",
           "correlation", "histogram")  # fmt: skip
ORDERED = ("min", "max", "distinct", "top", "approx_distinct", "approx_top", "largest", "smallest",
           "distinct_values")  # fmt: skip


def is_number(type: str) -> bool:
    return bool(re.fullmatch(NUMBER, type)) and type != "BOOLEAN"


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
    agg = plain(agg)
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
            name, own.word, taken_of, own.returns, signed=signed, compared_to=period,
            falls=agg.falls, own=own,
        )  # fmt: skip
    _refuse_out_of_place(agg, at, signed=signed, windowed=windowed)
    text = None if agg.expression is None else schema.expression(agg.expression)
    argument = None if text is None else sql.value_type(text, schema, at)
    if argument is not None:
        _refuse_type(agg, argument, at, signed=signed)
    weight = None if agg.weight is None else schema.expression(agg.weight)
    other = None if agg.other is None else _other(agg, schema, at)
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
        other=other,
        values=_checked_values(agg, argument, at),
        compared_to=agg.period,
        falls=agg.falls,
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


def _other(agg: Agg, schema: Schema, at: Location) -> str:
    """The second expression of an aggregate."""
    text = schema.expression(agg.other or "")
    type = sql.value_type(text, schema, at)
    if agg.kind == "correlation" and not re.fullmatch(NUMBER, type):
        raise ProgramError(f"{agg.kind} needs numbers", where=at, got=f"{agg.other} is {type}")
    if re.search(r"\]$|^(STRUCT|MAP|UNION)", type):
        raise ProgramError(
            f"{agg.kind} needs a value that can be ordered", where=at, got=f"{agg.other} is {type}"
        )
    return text


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
        case "correlation":
            return "DOUBLE"
        case "histogram":
            return "STRUCT(lower DOUBLE, upper DOUBLE, count BIGINT)[]"
        case "collect" | "earliest" | "latest" | "largest" | "smallest" | "distinct_values":
            return f"{argument}[]"
        case "top" | "approx_top" | "approx_counts":
            return f'STRUCT("value" {argument}, count {total or "BIGINT"})[]'
        case "min" | "max" | "first" | "last" | "min_by" | "max_by":
            return argument
        case _:
            raise ValueError(f"no such aggregate: {agg.kind}")


def _checked_values(
    agg: Agg, argument: str | None, at: Location
) -> tuple[str | int | float | bool, ...]:
    """The values asked for, as the type of the expression has them."""
    if agg.kind != "approx_counts":
        return agg.values
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
