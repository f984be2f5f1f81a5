"""Values of JSON as Python has them, by the types of their columns."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import cache
from typing import Any
from uuid import UUID

from riverrun.formats.types import Type, type_tree

Made = Callable[[Any], Any]
EPOCH = datetime(1970, 1, 1)
WIDE = Context(prec=80)
UNITS = {"TIMESTAMP_S": timedelta(seconds=1), "TIMESTAMP_MS": timedelta(milliseconds=1)}
"""Times that topics have as numbers."""


@cache
def reader_of(type: str) -> Made:
    """From JSON to Python: times are naive UTC, as everywhere."""
    return _made(type_tree(type))


def row_of(columns: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: reader_of(columns[name])(value) for name, value in row.items()}


def moment(text: str | None) -> datetime | None:
    """A time that an answer tells; None also beyond the years that Python has."""
    try:
        return None if text is None else _instant(text)
    except ValueError:
        return None


def _made(type: Type) -> Made:
    make = _of(type)
    return lambda value: None if value is None else make(value)


def _of(type: Type) -> Made:
    match type.kind:
        case "struct":
            fields = {name: _made(each) for name, each in type.parts}
            return lambda value: {name: make(value.get(name)) for name, make in fields.items()}
        case "map":
            key, item = _key(type.parts[0][1]), _made(type.item)
            return lambda value: {key(name): item(each) for name, each in value.items()}
        case "list" | "array":
            each = _made(type.item)
            return lambda value: [each(one) for one in value]
        case _:  # any other: a single value
            return _single(type.text)


def _single(type: str) -> Made:
    if type.startswith("TIMESTAMP"):
        unit = UNITS.get(type)  # any other: text
        return _instant if unit is None else lambda value: _counted(value, unit)
    if found := re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", type):
        digits = Decimal(1).scaleb(-int(found[1]))
        return lambda value: Decimal(str(value)).quantize(digits, context=WIDE)
    # any other: as JSON has it
    return SINGLE.get(type, lambda value: value)


SINGLE: dict[str, Made] = {
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "UUID": UUID,
    "FLOAT": float,
    "DOUBLE": float,
    "BLOB": base64.b64decode,
}


def _key(type: Type) -> Made:
    """Keys of maps are text in JSON, whatever they stand for."""
    if type.text == "BOOLEAN":
        return lambda text: text == "true"
    if type.text.endswith("INT") or type.text.endswith("INTEGER"):
        return int
    return _made(type)


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found


def _counted(value: str | float | Decimal, unit: timedelta) -> datetime:
    """Topics have numbers, views text."""
    if isinstance(value, str):
        return _instant(value)
    microseconds = Decimal(str(value)) * (unit // timedelta(microseconds=1))
    return EPOCH + timedelta(microseconds=round(microseconds))
