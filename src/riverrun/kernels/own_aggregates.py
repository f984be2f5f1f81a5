"""Aggregates of the user's own: their state is a struct, which merges like any part."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.errors import JobError, Location
from riverrun.kernels.functions import Function, cause_in, repeatable
from riverrun.kernels.multisets import appended
from riverrun.kernels.parts import Aggregation, Kind, Part, Parts, total
from riverrun.kernels.typed import columns_of
from riverrun.schema import Column, Schema, quoted

ADD, TAKE_BACK = 1, -1


@dataclass(frozen=True, eq=False)  # it may be made of what has no hash
class Own:
    """One of them, and the expressions that it is given."""

    does: Any
    """The user's object: add, merge, take_back, finish."""
    state: Schema
    defaults: tuple[Any, ...] = field(compare=False)
    expressions: tuple[str, ...]
    types: tuple[str, ...]
    returns: str
    nulls: bool
    name: str
    """What queries call it."""
    at: Location
    """Where it is defined."""

    @property
    def word(self) -> str:
        return type(self.does).__name__

    @property
    def struct(self) -> str:
        return f"STRUCT({self.state.ddl()})"

    @property
    def given(self) -> str:
        """SQL: whether a row counts."""
        return " AND ".join(f"({x}) IS NOT NULL" for x in self.expressions if not self.nulls)

    @property
    def function(self) -> Function:
        """What makes a state of the rows of a group, in SQL."""
        return Function(
            name=self.name,
            type=f"{self.struct}[]",
            call=Fold(self),
            arguments=tuple(f"{each}[]" for each in self.types),
            at=self.at,
            nulls=True,
            given=self.state,
            written=type(self.does),
        )

    def call(self, method: str, *values: Any) -> Any:
        """Calls the user's method where no row can be set aside: an error stops the job."""
        try:
            return getattr(self.does, method)(*values)
        except Exception as error:
            raise self._stopped(method, error) from error

    def checked(self, method: str, check: Callable[[Any], Any], value: Any) -> Any:
        try:
            return check(value)
        except TypeError as error:
            raise self._stopped(method, error) from error

    def _stopped(self, method: str, error: Exception) -> JobError:
        word = f"{self.word}.{method}"
        return JobError(f"{word} fails", where=self.at, got=cause_in(error, word, self.at))


@contextmanager
def errors_of(own: Iterable[Own]) -> Iterator[None]:
    """Errors as they were raised: of one in an expression Polars only keeps the text."""
    states = [_states(each) for each in own]
    try:
        yield
    except JobError:
        for each in states:
            if each.failed is not None:
                failed, each.failed = each.failed, None
                raise failed from None
        raise


@dataclass(frozen=True)
class Fold:
    own: Own

    def __call__(self, *lists: list[Any] | None) -> dict[str, Any]:
        states, add = _states(self.own), self.own.does.add
        state = states.new()
        for values in zip(*(each or () for each in lists), strict=True):
            add(state, *values)
        return dict(zip(self.own.state.names, states.values(state), strict=True))


class States:
    """States as objects for the user's methods, and as values."""

    def __init__(self, own: Own) -> None:
        self.own, self.columns = own, columns_of(own.state)
        names = own.state.names
        self.kind = type("State", (), {"__slots__": names})
        self.nested = any(self.columns.nested)
        self.failed: JobError | None = None
        """What `finish` failed with."""
        self.values = attrgetter(*names) if len(names) > 1 else self._only(names[0])

    @staticmethod
    def _only(name: str) -> Callable[[Any], tuple[Any, ...]]:
        return lambda state: (getattr(state, name),)

    def new(self, values: dict[str, Any] | None = None) -> Any:
        state, given = self.kind(), self.own.defaults
        if values is not None:
            given = tuple(values[name] for name in self.own.state.names)
        elif self.nested:
            given = copy.deepcopy(given)
        for name, value in zip(self.own.state.names, given, strict=True):
            setattr(state, name, value)
        return state

    def checked(self, state: Any) -> tuple[Any, ...]:
        checks = zip(self.columns.checks, self.values(state), strict=True)
        return tuple([check(value) for check, value in checks])

    def series(self, rows: list[tuple[Any, ...]], like: pl.Series) -> pl.Series:
        structs = pa.StructArray.from_arrays(self.columns.arrays(rows), list(self.columns.names))
        return pl.Series(like.name, structs).cast(like.dtype)


@lru_cache(maxsize=64)
def _states(own: Own) -> States:
    return States(own)


def kind_of(own: Own, *, signed: bool) -> Kind:
    result = _result(own)
    if signed:
        return Kind(_signed_parts(own), result, settle=lambda rows, at: _applied(own, rows, at))
    return Kind(_parts(own), result, settle=lambda rows, at: _merged(own, rows, at))


def _literal(sql: str) -> str:
    """As it is, in a template."""
    return sql.replace("{", "{{").replace("}", "}}")


def _filter(own: Own) -> str:
    return f" FILTER ({own.given})" if own.given else ""


def _parts(own: Own) -> tuple[Part, ...]:
    lists = ", ".join(f"list({x}){_filter(own)}" for x in own.expressions)
    fold = _literal(f"{quoted(own.name)}({lists})[1]")
    n = _literal(f"count(*){_filter(own)}")
    return Part("v", fold, lambda parts: parts["v"].implode()), Part("n", n, total("n"))


def _signed_parts(own: Own) -> tuple[Part, ...]:
    """Rows travel as they are: one may be taken back that only the kept state knows of."""
    names = (f"'x{number}': {x}" for number, x in enumerate(own.expressions))
    item = f"{{'op': __op, {', '.join(names)}}}"
    changes = _literal(f"coalesce(list({item}){_filter(own)}, [])")
    n = _literal(f"coalesce(sum(__op){_filter(own)}, 0)::BIGINT")
    return (
        Part("v", _literal(f"NULL::{own.struct}"), lambda parts: parts["v"].drop_nulls().first()),
        Part("changes", changes, lambda parts: appended(parts["changes"])),
        Part("n", n, total("n")),
    )


def _merged(own: Own, rows: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    lists, states = rows[columns["v"]], _states(own)
    first = lists.list.first()
    several = lists.list.len() > 1
    if not several.any():
        return rows.with_columns(first)

    def run(_: bool) -> pl.Series:
        made = []
        for given in lists.filter(several).to_list():
            state = states.new(given[0])
            for other in given[1:]:
                own.call("merge", state, states.new(other))
            made.append(own.checked("merge", states.checked, state))
        return states.series(made, first)

    return rows.with_columns(_replaced(first, several, repeatable(own.word, own.at, run)))


def _replaced(values: pl.Series, where: pl.Series, new: pl.Series) -> pl.Series:
    places = pl.select(
        pl.when(where).then(where.cum_sum() + len(values) - 1).otherwise(pl.int_range(len(values)))
    ).to_series()
    return pl.concat([values, new]).gather(places)


def _applied(own: Own, rows: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    """Changes put into the state. Rows are added first: what goes may have come in this batch."""
    kept, changes, states = rows[columns["v"]], rows[columns["changes"]], _states(own)

    def run(_: bool) -> pl.Series:
        made = []
        for values, several in zip(kept.to_list(), changes.to_list(), strict=True):
            state = states.new(values)
            for op, method in ((ADD, "add"), (TAKE_BACK, "take_back")):
                for each in several:
                    if each["op"] == op:
                        own.call(method, state, *list(each.values())[1:])
            made.append(own.checked("add", states.checked, state))
        return states.series(made, kept)

    done = repeatable(own.word, own.at, run)
    return rows.with_columns(done, changes.list.head(0))


def _result(own: Own) -> Callable[[Parts, Aggregation], pl.Expr]:
    columns = columns_of(Schema((Column("the result", own.returns),)))
    type, check = columns.types["the result"], columns.checks[0]

    def finished(parts: pl.Series) -> pl.Series:
        states = _states(own)

        def finish(each: dict[str, Any]) -> Any:
            if not each["n"]:
                return None
            found = own.call("finish", states.new(each["v"]))
            return own.checked("finish", check, found)

        def run(_: bool) -> pl.Series:
            made = [finish(each) for each in parts.to_list()]
            return pl.Series(parts.name, made, dtype=type)

        try:
            found: pl.Series = repeatable(own.word, own.at, run)
        except JobError as error:
            states.failed = error
            raise
        return found

    def result(parts: Parts, _: Aggregation) -> pl.Expr:
        both = pl.struct(parts["v"].alias("v"), parts["n"].alias("n"))
        return both.map_batches(finished, return_dtype=type)

    return result
