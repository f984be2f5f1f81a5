"""Who is meant: a subject as people write it, and as readers of its column have it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple
from uuid import UUID

from riverrun.errors import InputError
from riverrun.forgetting.declared import WHOLE
from riverrun.kernels.program import ReadTopic

Kinds = Mapping[str, Collection[str]]
"""Kinds of subjects, and the types of the columns that tell which one it is."""


def kinds_of(sources: Iterable[ReadTopic]) -> Kinds:
    found: dict[str, set[str]] = {}
    for source in sources:
        for each in source.personal:
            found.setdefault(each.subject, set()).add(source.fields.type_of(each.by))
    return found


class Subject(NamedTuple):
    """`customer/42`."""

    kind: str
    name: str
    """As its column is written as text: other spellings of the same stand for nobody."""

    @classmethod
    def of(cls, text: str, kinds: Kinds, *, kind: str | None = None) -> Subject:
        """What somebody wrote. Where there is one kind only, it may be left out."""
        if not isinstance(text, str) or not text or (kind is None and text in kinds):
            raise _unknown("it is not said who is meant", text, kinds)
        given, slash, name = text.partition("/")
        if kind is None and slash and given in kinds:
            return cls(given, _canonical(name, given, kinds))
        if kind is None and not slash and len(kinds) == 1:
            [kind] = kinds
        if kind is None or kind not in kinds:
            raise _unknown("it is not known what kind of subject that is", kind or text, kinds)
        return cls(kind, _canonical(text, kind, kinds))

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def _unknown(fact: str, got: object, kinds: Kinds) -> InputError:
    known = sorted(kinds)
    if not known:
        return InputError("nothing is personal here", hint="rr.personal(…) says what is")
    return InputError(fact, got=repr(got), hint=f"there is {', '.join(known)}: e.g. {known[0]}/42")


def _canonical(name: str, kind: str, kinds: Kinds) -> str:
    types = sorted(kinds[kind])
    found = {_written(name, type) for type in types} - {None}
    if len(found) != 1:
        several = " or ".join(sorted(map(repr, found)))
        raise InputError(
            f"it may be {several}" if found else f"no {kind} is called that",
            got=repr(name),
            hint=f"a {kind} is told by {' and by '.join(types)}",
        )
    return str(found.pop())


def _written(name: str, type: str) -> str | None:
    """A value of the type as readers write it; None if it is none."""
    if type == "UUID":
        return _uuid(name)
    if type in WHOLE:
        return str(int(name)) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", name) else None
    if digits := re.fullmatch(r"DECIMAL\(\d+, *(\d+)\)", type):
        return _decimal(name, int(digits[1]))
    return name  # text, which is as it is


def _uuid(name: str) -> str | None:
    try:
        return str(UUID(name.strip()))
    except ValueError:
        return None


def _decimal(name: str, places: int) -> str | None:
    try:
        found = Decimal(name.strip())
        exact = found.is_finite() and found == round(found, places)
    except InvalidOperation:
        return None
    return f"{found + 0:.{places}f}" if exact else None
