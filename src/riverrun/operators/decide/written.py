"""Objects of a program as JSON: the same text in every process, and nothing that is lost in it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from riverrun.operators.decide.parts import hints_of, is_model, leaves, with_parts

# a set has another order in each process
_ENCODER = msgspec.json.Encoder(decimal_format="string", order="deterministic")

_ANY_NUMBER = (float, Any, object, list, dict, tuple, set, frozenset)
"""Types under which NaN or an infinity may stand, which would be written as null."""


def encoded(value: Any) -> bytes:
    """The fields of an object; a ValueError if JSON cannot hold them."""
    kind: Any = type(value)
    text = str(value.model_dump_json()).encode() if is_model(kind) else _text(value)
    if b"null" in text and _may_be_no_number(kind):
        _require_numbers(value)
    return text


def _text(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value)
    except TypeError:  # it orders texts only: no other keys, and no objects in sets
        return _ENCODER.encode(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        plain = ((_key(key), _ordered(each)) for key, each in value.items())
        return dict(sorted(plain, key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return sorted(map(_ordered, value), key=_ENCODER.encode)
    if isinstance(value, list | tuple):
        return [*map(_ordered, value)]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {each.name: _ordered(getattr(value, each.name)) for each in fields}
    return value


def _key(key: Any) -> str:
    return str(next(iter(msgspec.to_builtins({key: None}, str_keys=True))))


@cache
def _may_be_no_number(kind: type[Any]) -> bool:
    if is_model(kind) or kind in _ANY_NUMBER:
        return True
    hints = [hint for part in with_parts(kind) for hint in hints_of(part).values()]
    return any(leaf in _ANY_NUMBER for hint in hints for leaf in leaves(hint))


def _require_numbers(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number that JSON can hold")
    if isinstance(value, Mapping):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    elif dataclasses.is_dataclass(value):
        parts = [getattr(value, each.name) for each in dataclasses.fields(value)]
    else:
        parts = vars(value).values() if is_model(type(value)) else ()
    for each in parts:
        _require_numbers(each)
