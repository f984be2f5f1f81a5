"""Functions that are handed to `.map(…)` and `.filter(…)`: they are given a row at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from riverrun.errors import Location, ProgramError
from riverrun.kernels.functions import Function
from riverrun.processor import Event
from riverrun.schema import Schema


@dataclass(frozen=True)
class OfRow:
    """A function of a row, as one of its columns."""

    call: Callable[[Event], Any]
    names: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        return self.call(_row_kind(self.names)(dict(zip(self.names, values, strict=True))))


@lru_cache(maxsize=256)
def _row_kind(names: tuple[str, ...]) -> type[Event]:
    """Rows whose columns are attributes of their class: faster than to look for them."""
    free = (name for name in names if not hasattr(Event, name))
    return type("Row", (Event,), {"__slots__": (), **{name: _column(name) for name in free}})


def _column(name: str) -> property:
    return property(itemgetter(name))


def condition_of(call: Callable[[Event], Any], rows: Schema, at: Location) -> Function:
    return _function("filter", _checked("filter", call, at), rows, None, at)


def mapping_of(call: Callable[[Event], Any], rows: Schema, given: Schema, at: Location) -> Function:
    return _function("map", _checked("map", call, at), rows, given, at)


def _function(
    word: str, call: Callable[[Event], Any], rows: Schema, given: Schema | None, at: Location
) -> Function:
    code = getattr(call, "__code__", None)
    line = Location(code.co_filename, code.co_firstlineno) if code else at
    called = getattr(call, "__name__", type(call).__name__)
    return Function(
        name=f"{word} {called}",
        type=f"STRUCT({given.ddl()})[]" if given else "BOOLEAN",
        call=OfRow(call, rows.visible.names),
        arguments=tuple(column.type for column in rows.visible.columns),
        at=line,
        nulls=True,
        given=given,
        written=call,
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
