"""Fields of events as columns: by their types, with all that they hold, or as dead letters.

What a column cannot hold is never null, and never rounded.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from riverrun.operators.decide.parts import is_model
from riverrun.operators.decide.written import encoded
from riverrun.schema import Column, Schema, literal

TYPES: dict[Any, str] = {
    str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", Decimal: "DECIMAL(38, 9)",
    datetime: "TIMESTAMP", date: "DATE", time: "TIME", UUID: "UUID", bytes: "VARCHAR",
}  # fmt: skip
"""What fields of events are as columns; others are JSON."""


def fields_of(type: type[Any]) -> Schema:
    """The fields of a class as columns."""
    if is_model(type):
        hints = {name: each.annotation for name, each in type.model_fields.items()}
    else:
        found = typing.get_type_hints(type)
        hints = {each.name: found[each.name] for each in dataclasses.fields(type)}
    return Schema(tuple(Column(name, _type(hint)) for name, hint in hints.items()))


def names_of(type: type[Any]) -> set[str]:
    """What its fields may be called in JSON."""
    names = set(fields_of(type).names)
    aliases = type.model_fields.values() if is_model(type) else ()
    given = (each for field in aliases for each in (field.alias, field.validation_alias))
    return names | {each for each in given if isinstance(each, str)}


def _type(hint: Any) -> str:
    given = typing.get_args(hint)
    parts = [each for each in given if each not in (NoneType, Ellipsis)]
    if NoneType in given and len(parts) == 1:
        return _type(parts[0])
    alike = typing.get_origin(hint) in (list, set, frozenset) or Ellipsis in given
    if alike and len(parts) == 1:
        item = _type(parts[0])
        return "JSON" if item == "JSON" else f"{item}[]"
    # any other: as JSON, which holds all of it
    return TYPES.get(hint, "JSON")


def value_of(column: Column, type: type[Any]) -> str:
    """The expression over `data`. A field that an old event lacks has its default."""
    path = literal(f'$."{column.name}"')
    default = defaults(type).get(column.name)
    # a whole value, null too: a default is for what is not there
    found = f"json_extract(data, {path})"
    value = found if default is None else f"coalesce({found}, {literal(default)}::JSON)"
    return made(column.type, value)


def defaults(type: type[Any]) -> dict[str, str]:
    if is_model(type):
        return {}
    found = {}
    for each in dataclasses.fields(type):
        if each.default is not dataclasses.MISSING:
            found[each.name] = encoded(each.default).decode()
        elif each.default_factory is not dataclasses.MISSING:
            found[each.name] = encoded(each.default_factory()).decode()
    return found


def made(type: str, value: str) -> str:
    """A value in JSON as one of a type; an error if it is none."""
    if type == "JSON":
        return f"CASE WHEN json_type({value}) <> 'NULL' THEN {value} END"
    item = type.removesuffix("[]")
    if item == type:
        return _scalar(type, f"({value}->>'$')")
    if item.endswith("[]") or "(" in item.removeprefix("DECIMAL("):
        return f"json_transform_strict({value}, {literal(json.dumps(_shape(type)))})"
    texts = f"json_transform_strict({value}, '[\"VARCHAR\"]')"
    return f"[{_scalar(item, 'each')} for each in {texts}]"


def _shape(type: str) -> Any:
    return [_shape(type[:-2])] if type.endswith("[]") else type


def _scalar(type: str, text: str) -> str:
    if type == "VARCHAR":
        return text
    if type == "TIMESTAMP":  # with its zone, or in UTC
        return f"make_timestamp(epoch_us(CAST({text} AS TIMESTAMPTZ)))"
    cast = f"CAST({text} AS {type})"
    if type == "TIME":
        return _only_if(f"regexp_full_match({text}, '[0-9:.]+')", cast, text, type)
    if digits := re.fullmatch(r"DECIMAL\(\d+, *(\d+)\)", type):
        longer = rf"regexp_matches({text}, '\.[0-9]{{{digits[1]}}}[0-9]*[1-9]')"
        tiny = f"regexp_matches({text}, '[eE]-') AND CAST({text} AS DOUBLE) <> {cast}::DOUBLE"
        return _only_if(f"NOT ({longer} OR {tiny})", cast, text, type)
    return cast


def _only_if(fits: str, value: str, text: str, type: str) -> str:
    told = f"error({text} || ' is no {type}')"
    return f"CASE WHEN {text} IS NULL THEN NULL WHEN {fits} THEN {value} ELSE {told} END"
