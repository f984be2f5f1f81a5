"""Values of views: as a database keeps them, as JSON has them, and as people write them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from math import isfinite, isnan
from typing import Any
from uuid import UUID

from riverrun import exact
from riverrun.durations import BEGINNING, END
from riverrun.errors import InputError
from riverrun.schema import Column, Schema, nested
from riverrun.sinks.keyed import key_text

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
LARGE = ("HUGEINT", "UBIGINT", "UHUGEINT")
Made = Callable[[Any], Any]


def instant(moment: datetime) -> str:
    """As topics have it: UTC, and a fraction only where there is one."""
    plain = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return f"{plain.isoformat(timespec='microseconds' if plain.microsecond else 'seconds')}Z"


def moment_text(microseconds: int) -> str:
    """A time; beyond the years that there are, its number."""
    try:
        return instant(datetime.fromtimestamp(microseconds // 1_000_000, UTC)).replace("+00:00", "")
    except (ValueError, OverflowError, OSError):
        return str(microseconds)


def clock_text(clock: int | None) -> str | None:
    """A clock that has seen nothing yet, or the end of the input, has no time."""
    return moment_text(clock) if clock is not None and BEGINNING < clock < END else None


def from_sqlite(type: str) -> Made:
    """What SQLite keeps, as JSON has it."""
    if nested(type) or type == "JSON":
        return exact.loads
    if type == "BOOLEAN":
        return bool
    if type in LARGE:
        return int
    if type.startswith("DECIMAL"):
        return Decimal
    return _finite if type in ("FLOAT", "DOUBLE") else _same


def from_postgres(type: str) -> Made:
    """What psycopg gives, as JSON has it."""
    if type.startswith("TIMESTAMP"):
        return instant
    if type in LARGE:
        return int
    if type in ("DATE", "TIME"):
        return lambda value: value.isoformat()
    if type in ("FLOAT", "DOUBLE"):
        return _finite
    return str if type == "UUID" else _same


def _same(value: Any) -> Any:
    return value


def plain(value: Any) -> Any:
    """What a query gave, as JSON has it: bytes are in base64, times as views have them."""
    match value:
        case float():
            return _finite(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return instant(value)
        case date() | time():
            return value.isoformat()
        case _:  # any other: JSON has it, or it is written as its text
            return value


def _finite(value: float) -> float | str:
    """JSON has no number for the others."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def given(column: Column, text: str) -> Any:
    """A value that somebody wrote, as SQLite keeps it; an InputError if the column has no such."""
    try:
        text.encode()  # halves of signs are no text
        if nested(column.type):  # of a key
            return key_text(Schema((column,)), [text])
        return _reader(column.type)(text)
    except (ValueError, ArithmeticError, InvalidOperation) as error:
        raise InputError(
            f"the value does not fit the column {column.name!r}",
            got=repr(text)[:200],
            hint=f"it is {column.type}",
        ) from error


def written(value: Any) -> str | None:
    """A value of a row, as `given` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return exact.dumps(value)
    return None if value is None else str(value)


def ordered(type: str) -> bool:
    """Whether values of a type are compared."""
    return not nested(type) and type != "JSON"


def _reader(type: str) -> Made:
    if type in INTEGERS:
        return _integer
    if type in LARGE:
        return lambda text: str(int(text))
    if type in ("FLOAT", "DOUBLE"):
        return float
    if type == "BOOLEAN":
        return _boolean
    if found := re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", type):
        return lambda text: _scaled(text, int(found[1]))
    if type.startswith("TIMESTAMP"):
        return lambda text: instant(datetime.fromisoformat(text))
    if type == "DATE":
        return lambda text: date.fromisoformat(text).isoformat()
    if type == "TIME":
        return lambda text: time.fromisoformat(text).isoformat()
    if type == "UUID":
        return lambda text: str(UUID(text))
    return _same if ordered(type) else _incomparable


def _integer(text: str) -> int:
    found = int(text)
    if not -(2**63) <= found < 2**63:
        raise ValueError(text)
    return found


def _boolean(text: str) -> int:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return int(text.lower() == "true")


def _scaled(text: str, digits: int) -> str:
    """With as many digits after the point as the column has: it is compared as text."""
    found = Decimal(text)
    scaled = found.quantize(Decimal(1).scaleb(-digits))
    if scaled != found:
        raise ValueError(text)
    return format(scaled, "f")


def _incomparable(text: str) -> Any:
    raise ValueError("JSON is not compared")
