"""Aggregates of a program's own: a class that adds rows to a state, and makes a result of it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.own_aggregates import Own
from riverrun.processor import State
from riverrun.schema import Schema, defaults, parse


class Aggregate:
    """An aggregate of your own, over SQL expressions: `agg(mean=Geometric("ms"))`.

    How rows are cut into groups that are merged must not matter, nor their order, and the same
    rows must give the same result. Keep nothing on `self` but what `__init__` is given.
    """

    state: ClassVar[str] = ""
    """Columns, as in a stream's schema. DEFAULT says what they hold at the start."""
    returns: ClassVar[str] = ""
    """The type of the result."""
    nulls: ClassVar[bool] = False
    """Whether `add` is given rows with a null among the values."""

    def __init__(self, *expressions: str) -> None:
        self.expressions = expressions

    def add(self, state: State, *values: Any) -> None:
        """A row: the values of the expressions."""
        raise NotImplementedError

    def merge(self, state: State, other: State) -> None:
        """Puts what another state holds into this one."""
        raise NotImplementedError

    def take_back(self, state: State, *values: Any) -> None:
        """Undoes `add`. Without it the aggregate cannot be taken of a table."""
        raise NotImplementedError

    def finish(self, state: State) -> Any:
        """The result, if there was a row; else it is null."""
        raise NotImplementedError


def checked_own(does: Aggregate, name: str, schema: Schema, at: Location, *, signed: bool) -> Own:
    """What is known of an aggregate of the user's own, over these columns."""
    kind = type(does)
    expressions = _expressions(does, schema, at)
    needed = {"add": len(expressions), "finish": 0}
    needed |= {"take_back": len(expressions)} if signed else {"merge": 1}
    for method, values in needed.items():
        _require(kind, method, values, at)
    for attribute, hint in (("state", '"n bigint default 0"'), ("returns", '"double"')):
        if not isinstance(getattr(kind, attribute), str) or not getattr(kind, attribute).strip():
            raise ProgramError(
                f"{kind.__name__} does not say what its {attribute} is" if attribute == "state"
                else f"{kind.__name__} does not say what it returns",
                where=at, hint=f"{attribute} = {hint}",
            )  # fmt: skip
    return Own(
        does=does,
        state=parse(kind.state, at).with_plain_times,
        defaults=defaults(kind.state, at),
        expressions=expressions,
        types=tuple(sql.value_type(text, schema, at) for text in expressions),
        returns=parse(f"result {kind.returns}", at).with_plain_times.columns[0].type,
        nulls=kind.nulls,
        name=name,
        at=_line(kind, at),
    )


def _expressions(does: Aggregate, schema: Schema, at: Location) -> tuple[str, ...]:
    given = getattr(does, "expressions", ())
    if not given or not all(isinstance(each, str) for each in given):
        raise ProgramError(
            f"{type(does).__name__} needs what it is taken of",
            where=at,
            got=repr(given),
            hint=f'{type(does).__name__}("column"), any SQL expression',
        )
    return tuple(map(schema.expression, given))


def _require(kind: type[Aggregate], method: str, values: int, at: Location) -> None:
    found = getattr(kind, method)
    if found is getattr(Aggregate, method):
        taken = " cannot be taken of a table, whose rows come and go: it" * (method == "take_back")
        raise ProgramError(
            f"{kind.__name__}{taken} has no {method}",
            where=at,
            hint=f"def {method}(self, state{', …' if values else ''}): …",
        )
    try:
        inspect.signature(found).bind(None, None, *range(values))
    except TypeError as error:
        raise ProgramError(
            f"{method} of {kind.__name__} does not take what it is given",
            where=at,
            got=f"{method}{inspect.signature(found)}: {error}",
            hint="add and take_back are given a value for each expression",
        ) from error


def _line(kind: type[Aggregate], at: Location) -> Location:
    code = getattr(kind.add, "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code else at
