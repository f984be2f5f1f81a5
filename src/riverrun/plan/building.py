"""What every step checks of its arguments, and what it is called."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypedDict

from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import short
from riverrun.plan.nodes import Emitted, Node, Step
from riverrun.plan.rows import changes, inputs_of
from riverrun.schema import RESERVED, Schema, column_list, quoted


class StepFields(TypedDict):
    """The fields of an operator that all steps by columns have."""

    name: str
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    at: Location


def step_fields(
    what: str, rows: Node, columns: tuple[str, ...], name: str | None, *, named: str, at: Location
) -> StepFields:
    """A step by columns; without a name it has one from what feeds it and from what it does."""
    keys = step_keys(what, rows, columns, at)
    made = checked_name(name, at) or f"{origin_name(rows)}_{named}"
    types = tuple(map(rows.schema.type_of, keys))
    return StepFields(name=made, keys=keys, key_types=types, at=at)


def step_keys(what: str, rows: Node, columns: tuple[str, ...], at: Location) -> tuple[str, ...]:
    """The key columns of a step, checked."""
    if not columns:
        raise ProgramError(f"{what} needs at least one column", where=at)
    for column in columns:
        rows.schema.visible.require(column, at)
        refuse_twice(column, columns, at)
    return columns


def checked_name(name: str | None, at: Location) -> str | None:
    if name is not None and not re.fullmatch(r"[\w.-]+", name):
        raise ProgramError("a step's name has letters, digits, _ . and -", where=at, got=name)
    return name


def renamed(node: Step, was: str | None, at: Location) -> Step:
    """The step, with the name that it had before."""
    return node if was is None else replace(node, was=checked_name(was, at))


def refuse_twice(column: str, columns: tuple[str, ...], at: Location) -> None:
    if columns.count(column) > 1:
        raise ProgramError(f"the column {column!r} is given twice", where=at)


def free_name(name: str, schema: Schema, option: str, at: Location) -> None:
    """Refuses a name for a new column that cannot be one."""
    if schema.taken(name) or not re.fullmatch(r"\w+", name) or name.startswith(RESERVED):
        raise ProgramError(f"the name {name!r} is taken", where=at, hint=f'{option}="…"')


def checked_condition(condition: str, schema: Schema, at: Location) -> str:
    text = schema.expression(condition)
    found = sql.type_of(text, schema, at)
    if found != "BOOLEAN":
        raise ProgramError("a condition must be true or false", where=at, got=f"{text}: {found}")
    return text


def period(option: str, given: Duration | None, at: Location) -> int | None:
    """How long something is kept, in microseconds; None: for ever."""
    if given is None:
        return None
    found = microseconds(given, at)
    if found <= 0:
        raise ProgramError(f"{option} is a period above zero", where=at, got=repr(given))
    return found


def call_of(function: Function, schema: Schema) -> str:
    """SQL that gives a function the columns of a row."""
    return f"{quoted(function.name)}({column_list(schema.visible.names)})"


def checked_policy(on_error: OnError | None, node: Node | None, at: Location) -> OnError:
    """What happens to rows of `node` that fail on their way into the next step or output."""
    if node is None or not changes(node):
        return on_error or "set aside"
    if on_error not in (None, "stop"):
        raise ProgramError(
            "a change of a table cannot be left out: the table would be wrong",
            where=at,
            got=f"on_error={on_error!r}",
            hint="make the expression total, e.g. with try_cast; else the job stops",
        )
    return "stop"


def origin_name(node: Node) -> str:
    """Steps are named by what feeds them: topics, or the step before."""
    return "_".join(_origins(node))


def _origins(node: Node) -> list[str]:
    if isinstance(node, ReadTopic):
        return [short(node.topic)]
    if isinstance(node, Step | Emitted):
        return [node.name]
    return sorted({name for each in inputs_of(node) for name in _origins(each)})
