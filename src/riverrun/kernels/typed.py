"""Python values for typed columns: what a processor keeps and emits is checked as it is given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from functools import cache, cached_property
from math import inf
from numbers import Integral, Real
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.formats.query import run
from riverrun.formats.types import Type, type_tree
from riverrun.schema import Column, Schema, quoted

FLOAT = 3.4028234663852886e38
"""The largest that a FLOAT holds."""
WIDE = Context(prec=200)

Check = Callable[[Any], Any]
"""Gives the value as it is stored; a TypeError if it cannot be."""


@dataclass(frozen=True)
class Columns:
    """Columns with what checks their values."""

    names: tuple[str, ...]
    types: dict[str, pl.DataType]
    arrow: dict[str, pa.DataType]
    checks: tuple[Check, ...]
    nested: tuple[bool, ...]
    """Whether a value can be changed in place."""

    def row(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in order, each checked; all must be there, and no other."""
        if len(values) != len(self.checks) or not values.keys() >= self._known:
            self._complain(values)
        return tuple(
            [check(values[name]) for name, check in zip(self.names, self.checks, strict=True)]
        )

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def _complain(self, values: Mapping[str, Any]) -> None:
        for name in self.names:
            if name not in values:
                raise TypeError(f"the column {name!r} is missing")
        extra = next(name for name in values if name not in self.names)
        raise TypeError(f"there is no column {extra!r}; there is {', '.join(self.names)}")

    def with_columns(self, types: dict[str, pl.DataType], arrow: dict[str, pa.DataType]) -> Columns:
        """With more that need no check."""
        names = (*self.names, *types)
        return replace(self, names=names, types=self.types | types, arrow=self.arrow | arrow)

    def frame(self, rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
        if not any("map<" in str(type) for type in self.arrow.values()):
            return pl.DataFrame(list(rows), schema=self.types, orient="row")
        # Polars makes nulls of the dictionaries of rows
        made = pa.table(dict(zip(self.names, self.arrays(list(rows)), strict=True)))
        return pl.DataFrame(pl.from_arrow(made)).cast(self.types)  # type: ignore[arg-type]

    def arrays(self, rows: list[tuple[Any, ...]]) -> list[pa.Array]:
        """Checked rows as columns."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self.names)
        return [
            pa.array(each, type) for each, type in zip(columns, self.arrow.values(), strict=True)
        ]


@cache
def columns_of(schema: Schema) -> Columns:
    nulls = ", ".join(f"NULL::{c.type} AS {quoted(c.name)}" for c in schema.columns)
    found = run(f"SELECT {nulls or '0'} LIMIT 0")
    frame = pl.DataFrame(pl.from_arrow(found))
    arrow = {name: found.schema.field(name).type for name in schema.names}
    types = {name: frame.schema[name] for name in schema.names}
    checks = tuple(
        _check(column.name, type_tree(column.type), types[column.name]) for column in schema.columns
    )
    nested = tuple(type.is_nested() for type in types.values())
    return Columns(schema.names, types, arrow, checks, nested)


def arrow_type(type: str) -> pa.DataType:
    """Of a type in DuckDB's words."""
    return columns_of(Schema((Column("value", type),))).arrow["value"]


def _check(name: str, sql: Type, type: pl.DataType) -> Check:
    def refused(value: Any) -> TypeError:
        return TypeError(f"{name} is {value!r:.100}, not {sql.text}")

    if sql.parts:
        return _nested(name, sql, type, refused)
    if type.is_integer():
        return _integer(type, refused)
    if type.is_float():
        return _float(type, refused)
    if isinstance(type, pl.Decimal):
        return _decimal(type, refused)
    if isinstance(type, pl.Datetime):
        return _moment(refused)
    # any other: checked by what Polars makes of it
    plain = {pl.String: str, pl.Boolean: bool, pl.Date: date, pl.Time: time}.get(type.base_type())
    return _any(type, refused) if plain is None else _plain(plain, refused)


Refused = Callable[[Any], TypeError]


def _nested(name: str, sql: Type, type: Any, refused: Refused) -> Check:
    """New lists and dictionaries: what a handler does to its own later is another matter."""
    if sql.kind == "struct":
        types = {field.name: field.dtype for field in type.fields}
        return _struct({n: _check(f"{name}.{n}", each, types[n]) for n, each in sql.parts}, refused)
    if sql.kind == "map":
        key = _check(f"{name}[]", sql.parts[0][1], type.key)
        return _map(key, _check(f"{name}[]", sql.item, type.value), refused)
    return _list(_check(f"{name}[]", sql.item, type.inner), sql.size, refused)


def _struct(checks: dict[str, Check], refused: Refused) -> Check:
    def check(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping) or value.keys() != checks.keys():
            raise refused(value)
        return {name: each(value[name]) for name, each in checks.items()}

    return check


def _map(key: Check, item: Check, refused: Refused) -> Check:
    def check(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise refused(value)
        return {key(name): item(each) for name, each in value.items()}

    return check


def _list(item: Check, size: int, refused: Refused) -> Check:
    def check(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            raise refused(value)
        if size and len(value) != size:
            raise refused(value)
        return [item(each) for each in value]

    return check


def _decimal(type: pl.Decimal, refused: Refused) -> Check:
    def check(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise refused(value)
        found = Decimal(value)
        digits = found.as_tuple()
        if not isinstance(digits.exponent, int):  # infinity, or not a number
            raise refused(value)
        scaled = found.scaleb(type.scale, WIDE)
        # abs() would round it to the digits of Python's context
        too_large = scaled.copy_abs() >= 10 ** (type.precision or 38)
        if too_large or scaled != scaled.to_integral_value():
            raise refused(value)
        return found

    return check


def _integer(dtype: pl.DataType, refused: Refused) -> Check:
    low, high = (pl.select(bound).item() for bound in (dtype.min(), dtype.max()))  # type: ignore[attr-defined]

    def check(value: Any) -> Any:
        if value is None or (type(value) is int and low <= value <= high):
            return value
        if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
            raise refused(value)
        return int(value)

    return check


def _float(dtype: pl.DataType, refused: Refused) -> Check:
    most = FLOAT if isinstance(dtype, pl.Float32) else inf

    def check(value: Any) -> Any:
        if value is None or (type(value) is float and -most <= value <= most):
            return value
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refused(value)
        found = float(value)
        if most < abs(found) < inf:
            raise refused(value)
        return found

    return check


def _moment(refused: Refused) -> Check:
    def check(value: Any) -> Any:
        return value if value is None else naive(value, refused)

    return check


def naive(value: Any, refused: Refused) -> datetime:
    """A time as naive UTC."""
    if not isinstance(value, datetime):
        raise refused(value)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _plain(kind: type, refused: Refused) -> Check:
    def check(value: Any) -> Any:
        if value is None or type(value) is kind:
            return value
        if not isinstance(value, kind) or isinstance(value, datetime):
            raise refused(value)
        return kind(value) if kind is str else value

    return check


def _any(type: pl.DataType, refused: Refused) -> Check:
    def check(value: Any) -> Any:
        try:
            pl.Series([value], dtype=type, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            raise refused(value) from error
        return copy.deepcopy(value)  # what a handler does to it later is another matter

    return check
