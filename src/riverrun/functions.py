"""Functions of a program's own, usable by name in its expressions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, get_type_hints

from riverrun.arguments import checked, shown
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels.functions import Function, Over
from riverrun.kernels.sql import is_free
from riverrun.schema import RESERVED, fields_of, parse

ANNOTATED: dict[Any, str] = {
    float: "DOUBLE", int: "BIGINT", str: "VARCHAR", bool: "BOOLEAN", datetime: "TIMESTAMP",
    date: "DATE", time: "TIME",
}  # fmt: skip
"""What an argument's annotation tells of its type. Others tell nothing, and take what comes."""


@checked
def function(
    type: str | Callable[..., Any],
    *,
    arguments: str | None = None,
    over: Over = "rows",
    nulls: bool = False,
) -> Callable[[Callable[..., Any]], Function]:
    """Make a Python function one that expressions call by its name. `type` is what it returns.

    It is called for each row, or, `over="arrow"` or `"polars"`, with columns. The types of its
    arguments are given as text, `arguments="double, string"`, or by annotations; without either
    it takes values as they come. A null among them gives null without a call, unless `nulls`.
    It must give the same result for the same values, always.
    """
    at = caller()
    if not isinstance(type, str) or not type.strip():
        raise ProgramError(
            "a function needs the type that it returns",
            where=at,
            got=shown(type),
            hint='@rr.function("double")',
        )
    result = _types([type], at)[0]

    def declared(call: Callable[..., Any]) -> Function:
        name = _checked_name(call, at)
        types = _arguments(call, arguments, over, at)
        return Function(name, result, call, types, at, over, nulls)

    return declared


def _types(given: list[str], at: Location) -> list[str]:
    """Types in DuckDB's own words."""
    columns = ", ".join(f"value{number} {each}" for number, each in enumerate(given))
    try:
        schema = parse(columns, at).with_plain_times
    except ProgramError as error:
        raise ProgramError(
            f"a function cannot have the type {', '.join(given)!r}", where=at, got=error.got,
            hint='a type as in a schema: "double", "string", "bigint[]"',
        ) from error  # fmt: skip
    if len(schema.columns) != len(given):
        raise ProgramError("a function returns one value", where=at, got=", ".join(given))
    return [column.type for column in schema.columns]


def _checked_name(call: Callable[..., Any], at: Location) -> str:
    if not callable(call):
        raise ProgramError("rr.function is for functions", where=at, got=repr(call))
    name = getattr(call, "__name__", "")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name.startswith(RESERVED):
        raise ProgramError(
            "expressions cannot call a function of this name",
            where=at,
            got=name or repr(call),
            hint="define it with def, and a name of letters, digits and _",
        )
    if not is_free(name.lower()):
        raise ProgramError(
            f"the name {name!r} is taken", where=at, hint="SQL has it already: choose another"
        )
    return name


def _arguments(
    call: Callable[..., Any], text: str | None, over: Over, at: Location
) -> tuple[str | None, ...]:
    names = _parameters(call, at)
    if text is None:
        hints = {} if over != "rows" else _hints(call)
        # any other: without a type that SQL has, values come as they are
        return tuple(ANNOTATED.get(hints.get(name)) for name in names)
    found = _types(fields_of(text), at)
    if len(found) != len(names):
        raise ProgramError(
            f"{call.__name__} takes {len(names)} arguments", where=at, got=f"arguments={text!r}"
        )
    return tuple(found)


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(call)
    except (NameError, TypeError):  # of names that only a type checker knows
        return {}


def _parameters(call: Callable[..., Any], at: Location) -> list[str]:
    try:
        found = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        found = {}.values()
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not found or any(each.kind not in plain for each in found):
        raise ProgramError(
            "a function has at least one argument, and each has its place",
            where=at,
            got=f"{call.__name__}({', '.join(map(str, found))})",
            hint="no *args, **kwargs or keyword-only arguments",
        )
    return [each.name for each in found]
