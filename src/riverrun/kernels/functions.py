"""Functions of the program's own, as DuckDB calls them: a vector of rows at a time."""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Literal
from weakref import ref

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import ARROW, SPECIAL

from riverrun.errors import JobError, Location, Visible
from riverrun.kernels.typed import Columns, arrow_type, columns_of
from riverrun.schema import Column, Schema, first_line

Over = Literal["rows", "arrow", "polars"]
"""Whether a function is called for each row, or with columns."""

Columnar = list[pa.ChunkedArray]
FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda type: (
        pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
    ),
    lambda type: (
        pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)
    ),
    pa.types.is_timestamp,
    pa.types.is_nested,
)
"""Types that may stand for one another, as long as no value changes."""

_twice = threading.Event()


@contextmanager
def run_twice() -> Iterator[None]:
    """Within it every function of this process runs twice, and must give the same: also in the
    threads of Polars."""
    _twice.set()
    try:
        yield
    finally:
        _twice.clear()


def running_twice() -> bool:
    return _twice.is_set()


def repeatable(name: str, at: Location, run: Callable[[bool], Any]) -> Any:
    """What `run` gives. It is told whether it runs for the second time."""
    first = run(False)
    if _twice.is_set() and not _same(first, run(True)):
        raise JobError(
            f"{name} gives another result when it is run again on the same values",
            where=at,
            hint="no random numbers, no clock, and nothing kept from one call to the next",
        )
    return first


def _same(first: pl.Series | pa.Array, second: pl.Series | pa.Array) -> bool:
    # as text, in which what is not a number is the same as itself
    one, other = (pl.Series("", each).to_list() for each in (first, second))
    return str(one) == str(other)


class FunctionError(duckdb.Error):
    """A function failed on a row: the cause, for dead letters."""


@dataclass(frozen=True, eq=False)  # it may be made of what has no hash
class Function(Visible):
    """Called by its name in expressions; in Python it is what it was before."""

    name: str
    type: str
    """Of what it returns."""
    call: Callable[..., Any]
    arguments: tuple[str | None, ...]
    """Their types; None takes values as they come."""
    at: Location
    over: Over = "rows"
    nulls: bool = False
    """Whether it is given nulls. Else the result of a null is null."""
    given: Schema | None = None
    """Of functions that give rows as dictionaries, lists of structs for DuckDB: their columns."""
    written: Any = None
    """What the program wrote, if that is not `call` itself."""

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self.call(*values, **named)

    @property
    def word(self) -> str:
        """What the program calls it."""
        return str(getattr(self.written or self.call, "__name__", self.name))

    @property
    def text(self) -> str:
        """The same, and where it is."""
        return f"{self.word} ({Path(self.at.file).name}:{self.at.line})"

    @cached_property
    def _arrow(self) -> pa.DataType:
        return arrow_type(self.type)

    def columns(self, *given: pa.ChunkedArray) -> pa.Array:
        """The results for the rows of these columns."""
        columns = [
            column.cast(pa.float64())
            if wanted is None and pa.types.is_decimal(column.type)
            else column
            for column, wanted in zip(given, self.arguments, strict=True)
        ]
        run = self._by_rows if self.over == "rows" else self._by_columns
        found: pa.Array = repeatable(self.word, self.at, lambda again: run(columns, again))
        return found

    def _by_rows(self, columns: Columnar, again: bool) -> pa.Array:
        rows: Any = list(zip(*(pl.Series("", each).to_list() for each in columns), strict=True))
        # in the other order, so that what depends on the row before shows, too
        rows, call = (rows[::-1] if again else rows), self.call
        if self.nulls or not any(column.null_count for column in columns):
            made = [call(*row) for row in rows]
        else:
            made = [None if None in row else call(*row) for row in rows]
        return self._array(made[::-1] if again else made)

    def _array(self, made: list[Any]) -> pa.Array:
        if self.given is not None:
            return _rows_array(columns_of(self.given), made)
        check = columns_of(Schema((Column("the result", self.type),))).checks[0]
        return pa.array([check(value) for value in made], self._arrow)

    def _by_columns(self, columns: Columnar, again: bool) -> pa.Array:
        size = len(columns[0])
        if again and size > 1:
            # in two parts, so that what depends on other rows shows, too
            halves = ([c[: size // 2] for c in columns], [c[size // 2 :] for c in columns])
            return pa.concat_arrays([self._by_columns(half, False) for half in halves])
        if self.nulls or not any(column.null_count for column in columns):
            return self._called(columns)
        whole = reduce(pc.and_, (pc.is_valid(column) for column in columns))
        if not pc.any(whole).as_py():
            return pa.nulls(size, self._arrow)
        made = self._called([column.filter(whole) for column in columns])
        places = pc.subtract(pc.cumulative_sum(whole.cast(pa.int64())), 1)
        return made.take(pc.if_else(whole, places, None).combine_chunks())

    def _called(self, columns: Columnar) -> pa.Array:
        polars = self.over == "polars"
        arrays = [column.combine_chunks() for column in columns]
        made = self.call(*(pl.Series("", each) if polars else each for each in arrays))
        kinds: Any = pl.Series if polars else (pa.Array, pa.ChunkedArray)
        if not isinstance(made, kinds):
            raise TypeError(f"the result is {type(made).__name__}, not {_column_word(self.over)}")
        if len(made) != len(arrays[0]):
            raise TypeError(f"the result has {len(made)} rows, not {len(arrays[0])}")
        return self._fitting(made.to_arrow() if polars else made)

    def _fitting(self, made: Any) -> pa.Array:
        array = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
        wanted = self._arrow
        related = any(alike(array.type) and alike(wanted) for alike in FAMILIES)
        if array.type == wanted or pa.types.is_null(array.type) or related:
            return array.cast(wanted)
        raise TypeError(f"the result is of type {array.type}, not {self.type}")

    def failed(self, error: BaseException) -> FunctionError:
        return FunctionError(cause_in(error, self.word, self.at))


def _rows_array(columns: Columns, made: list[Any]) -> pa.Array:
    """Rows, None where there is none, as lists of one struct or none."""
    for row in made:
        if row is not None and not isinstance(row, Mapping):
            raise TypeError(f"the result is {row!r:.100}, not a dictionary")
    arrays = columns.arrays([columns.row(row) for row in made if row is not None])
    structs = pa.StructArray.from_arrays(arrays, names=list(columns.names))
    ends = pc.cumulative_sum(pa.array([0, *(int(row is not None) for row in made)], pa.int32()))
    return pa.ListArray.from_arrays(ends, structs)


def _column_word(over: Over) -> str:
    return "a polars.Series" if over == "polars" else "a pyarrow.Array"


def cause_in(error: BaseException, function: str, at: Location) -> str:
    """What went wrong, and the line of the function's file that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == at.file]
    place = f"{Path(at.file).name}:{lines[-1] if lines else at.line}"
    message = first_line(error) if str(error).strip() else "no message"
    return f"{type(error).__name__}: {message} ({place}, in {function})"


class Calls:
    """The functions of a connection, and what went wrong in them: DuckDB only passes on a text."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self.functions = tuple(functions)
        self.error: BaseException | None = None

    def install(self, connection: duckdb.DuckDBPyConnection) -> None:
        for each in self.functions:
            call = _noting(ref(self), ref(each))
            # DuckDB counts the parameters, and takes their types from the signature
            call.__signature__ = _signature(each)  # type: ignore[attr-defined]
            connection.create_function(
                each.name, call, None, duckdb.type(each.type), type=ARROW, null_handling=SPECIAL
            )

    def taken(self) -> BaseException | None:
        """What went wrong last, once."""
        found, self.error = self.error, None
        return found


def _noting(calls: ref[Calls], function: ref[Function]) -> Callable[..., pa.Array]:
    """What DuckDB is given. It must hold nothing that may hold the connection, such as the globals
    of a user's function: Python cannot see through DuckDB, and would never end it."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        noted, called = calls(), function()
        assert noted is not None and called is not None
        try:
            return called.columns(*columns)
        except JobError as error:
            noted.error = error
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # of times that Python lacks
            noted.error = called.failed(error)
            raise
        except BaseException as error:
            noted.error = error  # Ctrl-C is no fault of the row
            raise

    return call


def _signature(function: Function) -> inspect.Signature:
    kind, nothing = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(f"a{n}", kind, annotation=duckdb.type(each) if each else nothing)
            for n, each in enumerate(function.arguments)
        ]
    )
