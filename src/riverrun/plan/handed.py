"""Functions that are handed to `.map(…)` and `.filter(…)`: they are given a row at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.errors import Location, ProgramError
from riverrun.kernels.functions import Function
from riverrun.kernels.typed import columns_of
from riverrun.processor import Event
from riverrun.schema import Schema


@dataclass(frozen=True)
class OfRow:
    """A function of a row, as one of its columns."""

    call: Callable[[Event], Any]
    names: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        return self.call(Event(dict(zip(self.names, values, strict=True))))


@dataclass(frozen=True)
class Mapped(OfRow):
    """One that gives a row, or None."""

    given: Schema

    def __call__(self, *values: Any) -> tuple[Any, ...] | None:
        made = super().__call__(*values)
        if made is not None and not isinstance(made, Mapping):
            raise TypeError(f"the result is {made!r:.100}, not a dictionary")
        return None if made is None else columns_of(self.given).row(made)


def condition_of(call: Callable[[Event], Any], rows: Schema, at: Location) -> Function:
    made = OfRow(_checked("filter", call, at), rows.visible.names)
    return _function("filter", made, rows, "BOOLEAN", at)


def mapping_of(call: Callable[[Event], Any], rows: Schema, given: Schema, at: Location) -> Function:
    made = Mapped(_checked("map", call, at), rows.visible.names, given)
    return _function("map", made, rows, f"STRUCT({given.ddl()})[]", at)


def _function(word: str, made: OfRow, rows: Schema, type: str, at: Location) -> Function:
    code = getattr(made.call, "__code__", None)
    line = Location(code.co_filename, code.co_firstlineno) if code else at
    called = getattr(made.call, "__name__", type)
    return Function(
        name=f"{word} {called} {Path(line.file).name}:{line.line}",
        type=type,
        call=made,
        arguments=tuple(column.type for column in rows.visible.columns),
        at=line,
        nulls=True,
        given=made.given if isinstance(made, Mapped) else None,
        written=made.call,
    )


def _checked(word: str, call: Any, at: Location) -> Callable[[Event], Any]:
    if isinstance(call, str):
        hint = ".where(…) takes SQL" if word == "filter" else ".select(…) takes SQL"
        raise ProgramError(f"{word} needs a function", where=at, got=repr(call), hint=hint)
    try:
        inspect.signature(call).bind(Event({}))
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"{word} needs a function of a row",
            where=at,
            got=f"{call!r}: {error}",
            hint=f"{word}(lambda row: …)",
        ) from error
    result: Callable[[Event], Any] = call
    return result
