"""The classes that a class of commands, events or states is made of, ready to travel to workers."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Mapping
from typing import Any, get_type_hints

NOTED = "__msgspec_cache__"


def resolve(kind: type[Any]) -> None:
    """Annotations that are text become types: the names in them mean nothing in a worker, which
    has the class but not its module."""
    for each in with_parts(kind):
        hints = hints_of(each)
        for base in each.__mro__:
            own = inspect.get_annotations(base)
            if any(isinstance(found, str | typing.ForwardRef) for found in own.values()):
                base.__annotations__ = {name: hints[name] for name in own}


def travelling(kind: type[Any]) -> type[Any]:
    """The class without what msgspec notes in it, which no worker can be sent."""
    for each in with_parts(kind):
        if NOTED in vars(each):
            delattr(each, NOTED)
    return kind


def with_parts(kind: type[Any]) -> list[type[Any]]:
    """The class, and those of its fields: dataclasses, enums, tuples and dictionaries with names;
    one that has none is alone."""
    return _added(kind, []) or [kind]


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The types of its fields."""
    return {} if issubclass(kind, enum.Enum) else get_type_hints(kind, include_extras=True)


def leaves(hint: Any) -> list[Any]:
    """The classes that a type is made of; of a generic one also itself."""
    inner = [each for part in typing.get_args(hint) for each in leaves(part)]
    origin = typing.get_origin(hint)
    own = origin if isinstance(origin, type) and _has_parts(origin) else None
    return [*([own] if own else []), *inner] if inner else [hint]


def _added(kind: Any, known: list[type[Any]]) -> list[type[Any]]:
    if isinstance(kind, type) and _has_parts(kind) and kind not in known:
        known.append(kind)
        for hint in hints_of(kind).values():
            for part in leaves(hint):
                _added(part, known)
    return known


def _has_parts(kind: type[Any]) -> bool:
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, enum.Enum)
        or named
        or typing.is_typeddict(kind)
    )


def is_model(type: type[Any]) -> bool:
    """Whether it is a model of pydantic."""
    return hasattr(type, "model_validate_json") and hasattr(type, "model_dump_json")


def require_keys(kind: type[Any]) -> None:
    """Refuses dictionaries whose keys JSON cannot hold."""
    for part in with_parts(kind):
        for hint in hints_of(part).values():
            _check_keys(hint)


def _check_keys(hint: Any) -> None:
    inner, origin = typing.get_args(hint), typing.get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping) and inner:
        own = typing.get_origin(inner[0]) or inner[0]
        if own is bool or (isinstance(own, type) and issubclass(own, _NO_KEYS)):
            raise TypeError(f"{hint}: keys are text, numbers, times, UUID or enums")
    for part in inner:
        _check_keys(part)


_NO_KEYS = (tuple, list, set, frozenset, dict)
