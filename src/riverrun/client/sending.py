"""Records as their topic reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from riverrun.views.typed import EPOCH, UNITS

Record = Mapping[str, Any]
MICROSECOND = timedelta(microseconds=1)


def fitted(
    records: Record | Sequence[Record], columns: Callable[[], Mapping[str, str]]
) -> Record | Sequence[Record]:
    """Times as numbers where the topic has them so: it is asked for its columns only if there are
    times."""
    single = isinstance(records, Mapping)
    several: Sequence[Record] = [records] if isinstance(records, Mapping) else records
    if not any(isinstance(value, datetime) for each in several for value in each.values()):
        return records
    types = columns()
    made = [
        {name: _fitted(value, types.get(name)) for name, value in each.items()} for each in several
    ]
    return made[0] if single else made


def _fitted(value: Any, type: str | None) -> Any:
    if not isinstance(value, datetime) or type not in UNITS:
        return value
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    microseconds, unit = (plain - EPOCH) // MICROSECOND, UNITS[type] // MICROSECOND
    return Decimal(microseconds) / unit
