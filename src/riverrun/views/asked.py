"""What is asked of a view: which rows, in which order, and where a page begins.

`country=eq.de`, `views=ge.10`, `at=lt.2026-01-01`, `name=in.(a,"b,c",is.null)`, `name=is.null`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from riverrun.errors import InputError
from riverrun.schema import Column, Schema
from riverrun.views.values import given, ordered, written

Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge"]
SIGNS: dict[Comparison, str] = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
DEFAULT_LIMIT, MOST = 100, 10_000
MOST_FILTERS, MOST_VALUES = 100, 1000
"""Conditions of a page, and values of an `in`."""
VALUE = re.compile(r'(?:"((?:[^"]|"")*)"|([^",][^,]*|))(,|\Z)')
"""One of the values of an `in`, in quotes or not, and what comes after it."""


@dataclass(frozen=True)
class Filter:
    column: str
    by: str
    """A comparison, `in`, or `null`."""
    values: tuple[Any, ...] = ()
    holds: bool = True
    """Of `null`: whether it is to be so. Of `in`: whether null is not among them."""


@dataclass(frozen=True)
class Order:
    column: str
    down: bool = False


@dataclass(frozen=True)
class Asked:
    filters: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    """All of the key is in it, so that each row has its place."""
    limit: int = DEFAULT_LIMIT
    after: tuple[Any, ...] | None = None
    """The last row's values of `order`: those that follow it are wanted."""
    columns: tuple[str, ...] = ()
    """Those that are wanted: all, if none is named."""


@dataclass(frozen=True)
class Words:
    """What was asked, as it was written."""

    filters: Sequence[tuple[str, str]] = ()
    order: str | None = None
    limit: int | None = None
    after: str | None = None
    columns: str | None = None


def asked(words: Words, schema: Schema, key: tuple[str, ...]) -> Asked:
    """An InputError for what the view does not have."""
    limit = DEFAULT_LIMIT if words.limit is None else words.limit
    if not 1 <= limit <= MOST:
        raise InputError("the limit is out of range", got=limit, hint=f"1 to {MOST}")
    order = _order(words.order, schema, key)
    columns = tuple(words.columns.split(",")) if words.columns else ()
    for name in columns:
        _require(schema, name)
    if len(words.filters) > MOST_FILTERS:
        raise InputError(
            "there are too many conditions", got=len(words.filters), hint=f"at most {MOST_FILTERS}"
        )
    filters = tuple(_filter(name, text, schema) for name, text in words.filters)
    return Asked(filters, order, limit, _place(words.after, order, schema), columns)


def _require(schema: Schema, name: str) -> None:
    if name not in schema.names:
        raise InputError(
            f"the view has no column {name!r}"[:300], hint=f"it has {', '.join(schema.names)}"
        )


def _filter(name: str, text: str, schema: Schema) -> Filter:
    _require(schema, name)
    column = schema.only((name,)).columns[0]
    word, dot, value = text.partition(".")
    if not dot:
        return Filter(name, "eq", (_compared(column, text),))
    if word in get_args(Comparison):
        return Filter(name, word, (_compared(column, value),))
    if word == "in" and value.startswith("(") and value.endswith(")"):
        return _in(column, value[1:-1])
    if word in ("is", "not") and value == "null":
        return Filter(name, "null", holds=word == "is")
    return Filter(name, "eq", (_compared(column, text),))


def _compared(column: Column, text: str) -> Any:
    if not ordered(column.type):
        raise InputError(
            f"the column {column.name!r} is not compared",
            got=column.type,
            hint="lists, structs, maps and JSON are not, unless a row is looked up by its key",
        )
    return given(column, text)


def _in(column: Column, text: str) -> Filter:
    texts = list(_values(column, text)) if text else []
    if len(texts) > MOST_VALUES:
        raise InputError(
            f"there are too many values for {column.name!r}", hint=f"at most {MOST_VALUES}"
        )
    values = tuple(_compared(column, each) for each in texts if each is not None)
    return Filter(column.name, "in", values, holds=None not in texts)


def _values(column: Column, text: str) -> Iterator[str | None]:
    """Those of a list, None for null. What is in quotes may have commas, and two quotes for one."""
    place = 0
    while True:
        found = VALUE.match(text, place)
        if found is None:
            raise InputError(
                f"the values for {column.name!r} cannot be read", got=text[place : place + 100],
                hint='in.(a,"b, c","d ""e""",is.null)',
            )  # fmt: skip
        quoted, plain, place = found[1], found[2], found.end()
        if quoted is not None:
            yield quoted.replace('""', '"')
        else:
            yield None if plain == "is.null" else plain
        if not found[3]:
            return


def among(values: Iterable[str | None]) -> str:
    """The condition that a value is one of these."""
    texts = ("is.null" if each is None else '"' + each.replace('"', '""') + '"' for each in values)
    return f"in.({','.join(texts)})"


def _order(text: str | None, schema: Schema, key: tuple[str, ...]) -> tuple[Order, ...]:
    found: dict[str, Order] = {}
    for each in text.split(",") if text else ():
        name = each.removeprefix("-")
        _require(schema, name)
        if not ordered(type := schema.type_of(name)):
            raise InputError(f"{name!r} has no order", got=type, hint="leave it out of the order")
        found[name] = Order(name, each.startswith("-"))
    for name in key:
        found.setdefault(name, Order(name))
    return tuple(found.values())


def _place(text: str | None, order: tuple[Order, ...], schema: Schema) -> tuple[Any, ...] | None:
    if text is None:
        return None
    try:
        names, values = json.loads(base64.urlsafe_b64decode(text.encode() + b"=="))
        fits = names == named(order) and len(values) == len(order)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        fits = False
    if not fits or not all(each is None or isinstance(each, str) for each in values):
        raise InputError(
            "the page does not follow one of this order",
            got=f"after={text[:100]}",
            hint="take `next` of the answer as it is, and leave the order as it was",
        )
    columns = schema.only(tuple(each.column for each in order)).columns
    pairs = zip(columns, values, strict=True)
    return tuple(None if value is None else given(column, value) for column, value in pairs)


def named(order: Iterable[Order]) -> list[str]:
    return [f"{'-' if each.down else ''}{each.column}" for each in order]


def place_text(order: tuple[Order, ...], values: Sequence[Any]) -> str:
    """What the next page is asked with: the values as people write them."""
    found = json.dumps([named(order), [written(value) for value in values]], ensure_ascii=False)
    return base64.urlsafe_b64encode(found.encode()).decode().rstrip("=")
