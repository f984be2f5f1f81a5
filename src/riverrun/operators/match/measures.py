"""Measures: what is told of a match, computed from its rows in whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.errors import ProgramError
from riverrun.kernels import sql
from riverrun.kernels.sql import Evaluator, names_in
from riverrun.operators.match.clauses import Named
from riverrun.operators.match.conditions import Columns
from riverrun.operators.match.navigation import NUMBER, Ref, Scope, refs
from riverrun.operators.match.trees import Tree, changed, column, plain_column, written
from riverrun.schema import Column, Schema, in_range, quoted

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Value:
    """A value of a match that measures are computed from."""

    name: str
    ref: Ref
    column: str
    """Of the rows: where it is taken from."""
    more: tuple[str, ...] = ()
    """What else an aggregate takes, in SQL over the rows."""

    @property
    def direct(self) -> bool:
        """Whether it is known without asking DuckDB: the value of a row, or a number of rows."""
        return not self.ref.aggregate or not self.ref.value

    @property
    def counts(self) -> bool:
        """Whether it is how many values a column has."""
        return self.ref.aggregate == "count" and (not self.ref.value or self.ref.plain is not None)


@dataclass(frozen=True)
class Measure:
    name: str
    type: str
    text: str
    """SQL over the values."""
    value: str | None
    """The value that it is, if there is nothing to compute."""


@dataclass(frozen=True)
class Measures:
    values: tuple[Value, ...]
    measures: tuple[Measure, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(each.name, each.type) for each in self.measures)

    def computed_of(self, measure: Measure) -> Iterator[str]:
        """Columns that it is computed of. How many values a column has tells none of them."""
        named = names_in(measure.text).every
        for value in self.values:
            if value.name in named and not value.counts:
                yield value.column
                yield from (name for text in value.more for name in names_in(text).every)

    @property
    def numbered(self) -> bool:
        return any(each.column == NUMBER for each in self.values)


def measures_of(scope: Scope, given: list[Named], columns: Columns, *, final: bool) -> Measures:
    values: dict[Ref, Value] = {}
    made = []
    for each in given:
        tree = scope.read(each.holds, final=final, measure=True)
        for node in refs(tree):
            if node.ref not in values:
                name = f"__v{len(values)}"
                more = tuple(_further(*each, columns) for each in node.ref.more)
                values[node.ref] = Value(name, node.ref, _column(node.ref, columns), more)
        made.append(_measure(scope, each, tree, values))
    return Measures(tuple(values.values()), tuple(made))


def _column(ref: Ref, columns: Columns) -> str:
    if not ref.value:
        return "" if ref.aggregate else NUMBER
    return columns.of(ref)


def _further(text: str, constant: bool, columns: Columns) -> str:
    return text if constant else quoted(columns.of(Ref(text, "")))


def _measure(scope: Scope, given: Named, tree: Tree, values: dict[Ref, Value]) -> Measure:
    def named(node: Tree) -> Tree:
        return column(values[node["ref"]].name) if node["class"] == "ROW" else node

    made = changed(tree, named)
    text = written(made)
    schema = Schema(tuple(Column(value.name, ref.type) for ref, value in values.items()))
    try:
        type = sql.value_type(text, schema, scope.source.at) if values else _constant(scope, text)
    except ProgramError as error:
        fact, hint = f"{error.fact}: {error.got}", "a measure is SQL over values of the match"
        raise scope.source.error(fact, given.holds.begin, hint) from error
    direct = {value.name for value in values.values() if value.direct}
    plain = plain_column(made)
    return Measure(given.name, type, in_range(text, type), plain if plain in direct else None)


def _constant(scope: Scope, text: str) -> str:
    return sql.value_type(text, Schema((Column("__nothing", "BOOLEAN"),)), scope.source.at)


@dataclass(frozen=True)
class Matched:
    """The rows of matches, one match after the other."""

    rows: pl.DataFrame
    """With the columns that values are taken from, and `__class`."""
    var: Numbers
    """The variable of each row."""
    begins: Numbers
    ends: Numbers
    """Of each match."""

    @property
    def match(self) -> Numbers:
        """Of each row."""
        return np.repeat(np.arange(len(self.begins)), self.ends - self.begins)


def told(
    measures: Measures, matched: Matched, evaluator: Evaluator, line: str, *, every_row: bool
) -> pl.DataFrame:
    """The values of each match, or of each of its rows."""
    points = np.arange(matched.rows.height) if every_row else matched.ends - 1
    found = [
        (_counted if value.ref.aggregate else _taken)(matched, value, points).alias(value.name)
        for value in measures.values
        if value.direct
    ]
    frame = pl.DataFrame(found)
    summed = [value for value in measures.values if not value.direct]
    if not summed:
        return frame
    query = _running(summed) if every_row else _whole(summed)
    rows = matched.rows.with_columns(
        __match=pl.Series(matched.match), __n=pl.int_range(pl.len()), __var=pl.Series(matched.var)
    )
    made = evaluator.checked(query, rows.to_arrow(), line)
    aggregated = pl.DataFrame(pl.from_arrow(made))
    return frame.hstack(aggregated) if found else aggregated


def _so_far(matched: Matched, ref: Ref, points: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Which rows are of the group; seen from each point, how many there were before the match, and
    up to the point or to the end of the match."""
    group = matched.var if ref.group is None else ref.group
    member = np.isin(matched.var, group).astype(np.int64)
    so_far: Numbers = np.cumsum(member, dtype=np.int64)
    match = matched.match[points]
    before = np.append(0, so_far)[matched.begins[match]]
    return member, before, so_far[matched.ends[match] - 1] if ref.final else so_far[points]


def _counted(matched: Matched, value: Value, points: Numbers) -> pl.Series:
    _, before, last = _so_far(matched, value.ref, points)
    return pl.Series(last - before, dtype=pl.Int64)


def _taken(matched: Matched, value: Value, points: Numbers) -> pl.Series:
    """The value at the row that is asked for, seen from each of the points."""
    ref, source = value.ref, matched.rows[value.column]
    member, before, last = _so_far(matched, ref, points)
    wanted = before + 1 + ref.offset if ref.which == "first" else last - ref.offset
    known = (wanted > before) & (wanted <= last)
    places = np.append(np.flatnonzero(member), 0)
    found = source.gather(pl.Series(places[np.where(known, wanted - 1, 0)]))
    if known.all():
        return found
    return pl.select(pl.when(pl.Series(known)).then(found)).to_series()


def _filter(ref: Ref) -> str:
    if ref.group is None:
        return ""
    return f" FILTER (WHERE __var IN ({', '.join(map(str, ref.group))}))"


def _call(value: Value, order: str = "") -> str:
    ref = value.ref
    if not ref.value:
        return "count(*)"
    distinct = "DISTINCT " if ref.distinct else ""
    given = ", ".join((quoted(value.column), *value.more))
    return f"{ref.aggregate}({distinct}{given}{order})"


def _whole(values: list[Value]) -> str:
    made = []
    for value in values:
        order = "" if value.ref.distinct else " ORDER BY __n"
        made.append(f"{_call(value, order)}{_filter(value.ref)} AS {value.name}")
    return f"SELECT {', '.join(made)} FROM rows GROUP BY __match ORDER BY __match"


def _running(values: list[Value]) -> str:
    made = []
    for value in values:
        end = "UNBOUNDED FOLLOWING" if value.ref.final else "CURRENT ROW"
        frame = f"ROWS BETWEEN UNBOUNDED PRECEDING AND {end}"
        over = f" OVER (PARTITION BY __match ORDER BY __n {frame})"
        made.append(f"{_call(value)}{_filter(value.ref)}{over} AS {value.name}")
    return f"SELECT {', '.join(made)} FROM rows ORDER BY __n"
