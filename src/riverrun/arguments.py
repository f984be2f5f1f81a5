"""What is passed to a public function, checked against what its signature says.

Texts, numbers, flags, choices, mappings and paths are checked here, before the function runs.
Lists, durations, functions and objects of riverrun's own are left to whoever takes them, who has
more to say about what is wrong.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from riverrun.errors import ProgramError, caller
from riverrun.other_words import no_such_name

F = TypeVar("F", bound=Callable[..., Any])

OPERATORS = ("__init__", "__getitem__")
"""Methods that users call by other means than their name."""
LARGEST = 2**63 - 1
"""Whole numbers end up in columns, and in libraries that hold them in 64 bits."""
LONGEST = 100
"""Characters of a value that an error shows."""
NOUNS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Mapping: "a dictionary of texts",
    Path: "a path",
    os.PathLike: "a path",
}


def checked(target: F) -> F:
    """A public function, or a class with its public methods, that refuses what cannot be meant."""
    if not isinstance(target, type):
        return _checked(target)
    for name, member in list(vars(target).items()):
        public = not name.startswith("_") or name in OPERATORS
        if public and isinstance(member, FunctionType):
            setattr(target, name, _checked(member))
    if not hasattr(target, "__getattr__"):
        target.__getattr__ = _no_such_attribute  # type: ignore[attr-defined]
    return target


def _no_such_attribute(self: object, name: str) -> Any:
    own = type(self)
    # what it can do, and what it has; constants of the class are its own affair
    known = [each for each in dir(own) if not isinstance(getattr(own, each), str)]
    raise no_such_name(own.__name__, name, known)


def _checked(function: F) -> F:
    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        _check(function, args, options)
        return function(*args, **options)

    return run  # type: ignore[return-value]


def _check(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    signature, kinds = _signature(function)
    try:
        given = signature.bind(*args, **options).arguments
    except TypeError as error:
        raise _called_wrongly(function, options, str(error)) from None
    for name, value in given.items():
        if name not in kinds:
            continue
        match signature.parameters[name].kind:
            case Parameter.VAR_POSITIONAL:
                each = [(f"each of {name}", one) for one in value]
            case Parameter.VAR_KEYWORD:
                each = list(value.items())
            case _:  # any other: one value
                each = [(name, value)]
        for called, one in each:
            if not _fits(one, kinds[name]):
                raise _refused(called, one, kinds[name])


@cache
def _signature(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(function), get_type_hints(function)


def _fits(value: Any, kind: Any) -> bool:
    check = CHECKS.get(get_origin(kind) or kind)  # any other: left to the function
    return check is None or check(value, get_args(kind))


def _any_of(value: Any, kinds: tuple[Any, ...]) -> bool:
    return any(_fits(value, kind) for kind in kinds)


def _number(value: Any, kind: Any) -> bool:
    """True is a whole number to Python, but nobody means it as one."""
    return isinstance(value, kind) and not isinstance(value, bool) and not abs(value) > LARGEST


def _mapping(value: Any, kinds: tuple[Any, ...]) -> bool:
    return isinstance(value, Mapping) and all(
        _fits(name, kinds[0]) and _fits(each, kinds[1]) for name, each in value.items()
    )


CHECKS: dict[Any, Callable[[Any, tuple[Any, ...]], bool]] = {
    Union: _any_of,
    UnionType: _any_of,
    Literal: lambda value, choices: isinstance(value, str) and value in choices,
    NoneType: lambda value, _: value is None,
    bool: lambda value, _: isinstance(value, bool),
    str: lambda value, _: isinstance(value, str) and bool(value.strip()),
    int: lambda value, _: _number(value, Integral),
    float: lambda value, _: _number(value, Real),
    Mapping: _mapping,
    Path: lambda value, _: isinstance(value, os.PathLike),
    os.PathLike: lambda value, _: isinstance(value, os.PathLike),
}
"""Whether a value is of a kind, given what the kind is made of. Of other kinds all fit."""


def names(option: str, given: object, hint: str) -> tuple[str, ...]:
    """One name or a list of them: `key="id"` or `key=["shop", "id"]`."""
    kind = "table" if option == "table" else "column"
    listed = (given,) if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not all(_fits(each, str) for each in listed):
        raise ProgramError(
            f"{option} is a {kind} or a list of {kind}s",
            where=caller(),
            got=shown(given),
            hint=hint,
        )
    return tuple(listed)


def shown(value: object) -> str:
    """A value as an error shows it: what is too long is only named."""
    text = repr(value)
    name = type(value).__name__
    return text if len(text) <= LONGEST else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _refused(name: str, value: Any, kind: Any) -> ProgramError:
    empty = isinstance(value, str) and not value.strip()
    fact = f"{name} is empty" if empty and _fits("text", kind) else f"{name} is {_noun(kind)}"
    return ProgramError(fact, where=caller(), got=shown(value))


def _noun(kind: Any) -> str:
    """What is expected, in words; that it may also be nothing goes without saying."""
    found, inner = get_origin(kind) or kind, get_args(kind)
    if found in (Union, UnionType):
        return " or ".join(_noun(each) for each in inner if each is not NoneType)
    if found is Literal:
        quote = any(" " in each for each in inner)
        return "one of " + ", ".join(f'"{each}"' if quote else each for each in inner)
    return NOUNS[found]


def _called_wrongly(
    function: Callable[..., Any], options: dict[str, Any], wrong: str
) -> ProgramError:
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    parameters = inspect.signature(function).parameters
    known = [each for each in parameters if each != "self"]
    hint = f"{name}({', '.join(known)})"
    unknown = [each for each in options if each not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        wrong = f"has no argument {unknown[0]!r}"
        if close := get_close_matches(unknown[0], known, n=1):
            hint = f"did you mean {close[0]!r}? {hint}"
    return ProgramError(f"{name}() {wrong}", where=caller(), hint=hint)
