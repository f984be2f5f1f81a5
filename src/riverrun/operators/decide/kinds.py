"""The classes of a program's commands, events and states, and how they stand in JSON.

They are dataclasses, or models of pydantic. In a record their name is beside their fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import msgspec

from riverrun.errors import Location, ProgramError
from riverrun.operators.decide.parts import is_model, require_keys, resolve, with_parts
from riverrun.operators.decide.written import encoded
from riverrun.sourcing import UPCASTS_TO, Upcaster

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

Made = Callable[[bytes], Any]


@dataclass(frozen=True)
class Kind:
    """One class. It travels to workers with the program's code."""

    type: type[Any]

    @property
    def name(self) -> str:
        return self.type.__name__

    @cached_property
    def upcasters(self) -> tuple[Upcaster, ...]:
        """The first leads from version 1 to 2."""
        found = (getattr(each, "__func__", each) for each in vars(self.type).values())
        marked = {getattr(each, UPCASTS_TO): each for each in found if hasattr(each, UPCASTS_TO)}
        return tuple(marked[each] for each in sorted(marked))

    @property
    def version(self) -> int:
        return len(self.upcasters) + 1

    @property
    def _decoders(self) -> Decoders:
        kind: Any = self.type
        return _decoders(kind)

    def made(self, fields: bytes) -> Any:
        """The object with these fields; a ValueError says what does not fit."""
        return self._decoders.made(fields)

    def read(self, fields: bytes) -> Any:
        """The same of fields that riverrun wrote: none is looked for that the class has not."""
        return self._decoders.read(fields)

    def upcasted(self, fields: bytes, version: int) -> bytes:
        """Fields of an older version as those of this one."""
        if version == self.version:
            return fields
        if not 1 <= version <= self.version:
            raise ValueError(
                f"{self.name} is of version {version}, the program's of {self.version}: "
                "a newer program wrote it"
            )
        plain = msgspec.json.decode(fields)
        for step in self.upcasters[version - 1 :]:
            plain = dict(step(plain))
        return encoded(plain)

    def check(self, at: Location) -> None:
        """Refuses a class whose objects cannot be written and read again."""
        self._check_upcasters(at)
        if is_model(self.type):
            return
        if not dataclasses.is_dataclass(self.type):
            raise ProgramError(
                f"{self.name} is no dataclass",
                where=at,
                hint="@dataclass(frozen=True) before the class; or a model of pydantic",
            )
        try:
            resolve(self.type)
            _require_given(self.type)
            require_keys(self.type)
            self._decoders  # noqa: B018 - it is made, or tells why not
        except (TypeError, NameError, AttributeError) as error:
            raise ProgramError(
                f"{self.name} has fields that cannot be written", where=at, got=error,
                hint="fields have types that JSON can hold: numbers, text, times, Decimal, UUID, "
                "enums, lists, dictionaries, other dataclasses",
            ) from error  # fmt: skip

    def _check_upcasters(self, at: Location) -> None:
        found = [getattr(each, UPCASTS_TO) for each in self.upcasters]
        if found != list(range(2, len(found) + 2)):
            listed = ", ".join(map(str, found))
            raise ProgramError(
                f"the upcasters of {self.name} leave a version out", where=at,
                got=f"they lead to {listed}", hint="one for each version, from 2 on",
            )  # fmt: skip


class Decoders(NamedTuple):
    made: Made
    """Refuses fields that the class has not."""
    read: Made


@cache
def _decoders(kind: type[Any]) -> Decoders:
    """They stay in their process: none can travel."""
    if is_model(kind):
        return Decoders(kind.model_validate_json, kind.model_validate_json)
    decode = msgspec.json.Decoder(kind).decode
    parts = [each for each in with_parts(kind) if dataclasses.is_dataclass(each)]
    return Decoders(_deep(decode) if len(parts) > 1 else _flat(kind, decode), decode)


def _flat(kind: type[Any], decode: Made) -> Made:
    known = frozenset(each.name for each in dataclasses.fields(kind))

    def made(fields: bytes) -> Any:
        found = decode(fields)
        if unknown := _FIELDS.decode(fields).keys() - known:
            raise _no_field(kind, unknown)
        return found

    return made


def _deep(decode: Made) -> Made:
    def made(fields: bytes) -> Any:
        found = decode(fields)
        _require_known(found, msgspec.json.decode(fields))
        return found

    return made


def _require_known(found: Any, given: Any) -> None:
    """Refuses fields of objects within objects that their classes have not."""
    if dataclasses.is_dataclass(found) and isinstance(given, dict):
        known = {each.name for each in dataclasses.fields(found)}
        if unknown := given.keys() - known:
            raise _no_field(type(found), unknown)
        for name, part in given.items():
            _require_known(getattr(found, name), part)
    elif isinstance(found, Mapping) and isinstance(given, dict):
        for one, part in zip(found.values(), given.values(), strict=False):
            _require_known(one, part)
    elif isinstance(found, list | tuple) and isinstance(given, list):
        for one, part in zip(found, given, strict=False):
            _require_known(one, part)


def _no_field(kind: type[Any], unknown: Iterable[str]) -> ValueError:
    listed = ", ".join(map(repr, sorted(unknown)))
    return ValueError(f"{kind.__name__} has no field {listed}")


def _require_given(kind: type[Any]) -> None:
    """Every field is one of the constructor: others would be asked of whoever sends it."""
    for each in with_parts(kind):
        for field in dataclasses.fields(each) if dataclasses.is_dataclass(each) else ():
            if not field.init:
                raise TypeError(f"{each.__name__}.{field.name} is made with init=False")


def by_name(types: tuple[type[Any], ...]) -> dict[str, Kind]:
    return {each.__name__: Kind(each) for each in types}


def made_of(kinds: Mapping[str, Kind], name: str | None, fields: str | None) -> Any:
    """The object that a record names; a ValueError if there is none."""
    kind = kinds.get(name or "")
    if kind is None:
        raise ValueError(f"there is no {name!r}; there is {', '.join(kinds)}")
    return kind.made((fields or "{}").encode())
