"""Personal values inside of expressions: read before, and sealed again after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa

from riverrun.errors import Location
from riverrun.forgetting import KeyPlace, Keys
from riverrun.forgetting.keys import TWO
from riverrun.kernels.functions import Function

REVEAL, SEAL = "__reveal", "__seal"
"""What queries call them."""

HELD_BACK = "what it says is held back, since the row holds personal values"


@cache
def keys_at(place: KeyPlace) -> Keys:
    """Those of this process."""
    return Keys(place.store())


@dataclass
class Reveal:
    """Text that stands for personal values, read; null where it is forgotten."""

    place: KeyPlace = field(default_factory=KeyPlace)
    __name__ = "reveal"

    def __call__(self, sealed: pa.Array) -> pa.Array:
        coded = sealed.dictionary_encode()
        found = keys_at(self.place).read(coded.dictionary.to_pylist())
        return pa.array([each.value for each in found], pa.string()).take(coded.indices)


@dataclass
class Seal:
    """What was computed of such text, for the same subject."""

    place: KeyPlace = field(default_factory=KeyPlace)
    __name__ = "seal"

    def __call__(self, values: pa.Array, sealed: pa.Array) -> pa.Array:
        given = list(
            zip(values.to_pylist(), (each or "" for each in sealed.to_pylist()), strict=True)
        )
        distinct = list(dict.fromkeys(given))
        made = dict(zip(distinct, keys_at(self.place).seal_alike(distinct), strict=True))
        return pa.array([made[each] for each in given], pa.string())


HERE = Location(__file__, 0)


def revealing() -> tuple[Function, ...]:
    """The functions that queries over personal values call."""
    text = "VARCHAR"
    return (
        Function(REVEAL, text, Reveal(), (text,), HERE, over="arrow", nulls=True),
        Function(SEAL, text, Seal(), (text, text), HERE, over="arrow", nulls=True),
    )


def with_place(functions: Iterable[Function], place: KeyPlace) -> tuple[Function, ...]:
    """The functions, with the keys that are there."""
    return tuple(
        replace(each, call=replace(each.call, place=place))
        if isinstance(each.call, Reveal | Seal)
        else each
        for each in functions
    )


def discreet(cause: str, query: str) -> str:
    """Why a row failed, without what it holds, if the query reads personal values."""
    if TWO in cause:
        return TWO
    return f"{kind_of(cause)}: {HELD_BACK}" if f"{REVEAL}(" in query else cause


def kind_of(cause: str) -> str:
    """What is before the first colon, which is the same in each record."""
    return cause.partition(":")[0]
