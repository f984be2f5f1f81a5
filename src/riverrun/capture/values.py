"""Values as PostgreSQL writes them (in text), as JSON: what the Debezium format reads as it is.

Decimals, times, JSON and everything without a form of its own in JSON are text, bytes base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from json.encoder import encode_basestring as text
from typing import Literal, NamedTuple

Form = Literal["boolean", "number", "float", "timestamp", "bytes", "text"]
Written = Callable[[str], str]
"""A value in JSON."""

FORMS: dict[int, Form] = {
    16: "boolean",
    17: "bytes",
    20: "number",
    21: "number",
    23: "number",
    26: "number",
    700: "float",
    701: "float",
    1114: "timestamp",
    1184: "timestamp",
}
"""By the object ids of types that come with PostgreSQL."""


class Kind(NamedTuple):
    """How values of a type are written. Of arrays, those of its items."""

    form: Form
    array: bool = False
    delimiter: str = ","


def form_of(type: int) -> Form:
    return FORMS.get(type, "text")  # any other: text


def writer(kind: Kind) -> Written:
    single = _SINGLE[kind.form]
    return partial(_array, single, kind.delimiter) if kind.array else single


def _boolean(value: str) -> str:
    return "true" if value == "t" else "false"


def _float(value: str) -> str:
    return value if value[-1].isdigit() else text(value)  # NaN, Infinity


def _timestamp(value: str) -> str:
    """In UTC: the session's time zone is. Those before Christ and without end stay as they are."""
    if not value[-1].isdigit():
        return text(value)
    return f'"{value[:10]}T{value[11:].removesuffix("+00")}Z"' if value[4] == "-" else text(value)


def _bytes(value: str) -> str:
    return f'"{base64.b64encode(bytes.fromhex(value[2:])).decode()}"'


_SINGLE: dict[Form, Written] = {
    "boolean": _boolean,
    "number": str,
    "float": _float,
    "timestamp": _timestamp,
    "bytes": _bytes,
    "text": text,
}

_DIMENSIONS = re.compile(r"(\[-?\d+:-?\d+\])+=")
_ITEMS = {sign: re.compile(rf'"((?:[^"\\]|\\.)*)"|([^{{}}"{sign}]+)', re.DOTALL) for sign in ",;"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _array(single: Written, delimiter: str, value: str) -> str:
    """`{1,NULL,"a b"}` as `[1,null,"a b"]`, in as many dimensions as it has."""
    prefix = _DIMENSIONS.match(value)
    place, end = prefix.end() if prefix else 0, len(value)
    found: list[str] = []
    while place < end:
        sign = value[place]
        if sign in "{}":
            found.append("[" if sign == "{" else "]")
        elif sign == delimiter:
            found.append(",")
        else:
            item = _ITEMS[delimiter].match(value, place)
            if item is None:
                raise ValueError(f"no array: {value[:50]!r}")
            quoted, plain = item.groups()
            if quoted is not None:
                found.append(single(_ESCAPED.sub(r"\1", quoted)))
            else:
                found.append("null" if plain == "NULL" else single(plain))
            place = item.end() - 1
        place += 1
    return "".join(found)
