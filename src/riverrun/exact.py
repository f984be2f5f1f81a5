"""JSON with all digits of its numbers: what a float cannot show is a Decimal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

MARK = uuid4().hex
"""Stands before the digits of a decimal, since Python's encoder writes it only as text."""


def loads(text: str | bytes) -> Any:
    return json.loads(text, parse_float=_number)


def _number(text: str) -> float | Decimal:
    found = float(text)
    return found if Decimal(repr(found)) == (digits := Decimal(text)) else digits


def _refused(value: Any) -> str:
    raise TypeError(f"{value!r:.100} is no JSON")


def dumps(value: Any, *, other: Callable[[Any], str] = _refused, **options: Any) -> str:
    """`other` gives the text of what is neither JSON nor a decimal."""

    def text(found: Any) -> str:
        return f"{MARK}{found}" if isinstance(found, Decimal) else other(found)

    written = json.dumps(value, **{"ensure_ascii": False, "default": text, **options})
    return re.sub(f'"{MARK}([^"]*)"', r"\1", written)
