"""Values of a query, as the index holds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any

from riverrun.sinks.fulltext.layout import Field

SECOND = 1_000_000
LARGEST = 2**63 - 1


class BadValue(ValueError):
    """What the column holds."""


def parsed(field: Field, text: str) -> Any:
    noun, read = KINDS[field.kind]
    try:
        return read(field, text)
    except (ValueError, ArithmeticError) as error:  # also too large for any number
        raise BadValue(noun) from error


def _integer(field: Field, text: str) -> int:
    """Of a decimal its digits without the point; those that it cannot have are no match."""
    found = Decimal(text).scaleb(field.scale)
    if found != found.to_integral_value() or abs(found) > LARGEST:
        raise ValueError(text)
    return int(found)


def _unsigned(field: Field, text: str) -> int:
    found = int(text)
    if not 0 <= found <= 2 * LARGEST + 1:
        raise ValueError(text)
    return found


def _float(field: Field, text: str) -> float:
    """No document is found by what is not a number, or is infinite: none has such a value."""
    found = float(text)
    if not isfinite(found):
        raise ValueError(text)
    return found


def _boolean(field: Field, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _time(field: Field, text: str) -> int:
    """ISO 8601; UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def _clock(field: Field, text: str) -> int:
    found = time.fromisoformat(text)
    return (found.hour * 3600 + found.minute * 60 + found.second) * SECOND + found.microsecond


KINDS: dict[str, tuple[str, Callable[[Field, str], Any]]] = {
    "integer": ("a number that fits its digits", _integer),
    "unsigned": ("a whole number", _unsigned),
    "float": ("a number", _float),
    "boolean": ("true or false", _boolean),
    "time": ("a time like 2026-01-31 or 2026-01-31T12:00:00Z", _time),
    "clock": ("a time of day like 12:30", _clock),
}
