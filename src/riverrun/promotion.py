"""Promotions: which version of an application is public, and from which place of the input on.

One log per application holds what was asked and what has been done, in one order; all that is
known follows from it. A promotion goes through five records:

    asked      somebody wants the version to be public
    parked     the version plans nothing more, and says where it stands
    from       the pointer: the public one, which plans all the time, names X, ahead of both
    left       the former one is at X, and its tables are in places of its own
    taken      the new one is at X, and the public tables are its own

Up to `from` it can be given up; from then on it has happened, and whoever comes next goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from riverrun.partitions import Partition, as_texts, from_texts
from riverrun.versions import CURRENT

ASKED, PARKED, FROM, LEFT, TAKEN, GIVEN_UP = "asked", "parked", "from", "left", "taken", "given up"

Ends = Mapping[Partition, int]
Turn = Literal["park", "wait", "point", "go", "switch"]
"""What a version does for a promotion: say where it stands, wait, name X, go up to X, and there
change its places."""


def promotion_topic(application: str) -> str:
    return f"{application}.versions"


@dataclass(frozen=True)
class Noted:
    """A record of the log."""

    offset: int
    kind: str
    number: int | None = None
    """The promotion that it is of; the first record has none yet: it is its own offset."""
    version: str = ""
    """Which is to be public, where that is asked."""
    at: Ends = field(default_factory=dict)
    by: str = ""
    time: float = 0.0
    """In seconds since 1970."""

    def encoded(self) -> bytes:
        facts = {name: fact for name, fact in vars(self).items() if name != "offset" and fact}
        return json.dumps({**facts, "number": self.number, "at": as_texts(self.at)}).encode()

    @classmethod
    def decoded(cls, offset: int, value: bytes | None) -> Noted:
        """What cannot be read is of a kind that nobody knows: it changes nothing."""
        try:
            facts: dict[str, Any] = json.loads(value or b"")
            return cls(offset, **{**facts, "at": from_texts(facts["at"])})
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(offset, "unreadable")


@dataclass(frozen=True)
class Promotion:
    number: int
    former: str
    """The version that is public until X."""
    version: str
    """The one that is from X on."""
    parked: Ends | None = None
    at: Ends | None = None
    """X, once it is known."""
    left: bool = False
    by: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    """When each of its records was written."""

    def limit(self, partition: Partition) -> int:
        """Partitions that were not there yet are not read before X."""
        return (self.at or {}).get(partition.real, 0)

    def reached(self, ends: Ends) -> bool:
        """Whether all up to X is read, of what is read."""
        return self.at is not None and all(end >= self.limit(p) for p, end in ends.items())


@dataclass(frozen=True)
class Promotions:
    """What a log says."""

    public: str = CURRENT
    """The version whose part the public places have been given last."""
    open: Promotion | None = None
    """One that is not finished."""
    done: tuple[Promotion, ...] = ()

    def is_public(self, version: str) -> bool:
        """Whether the version writes to public places with its next batch."""
        left = self.open is not None and self.open.left
        return version == self.public and not left

    @property
    def public_next(self) -> str:
        """The version that is public, or will be."""
        return self.public if self.open is None or self.open.at is None else self.open.version

    def turn(self, version: str) -> Turn | None:
        """What a version has to do for the promotion that is open; None if it has no part in it,
        or none left."""
        found = self.open
        if found is None:
            return None
        if version == found.version:
            if found.parked is None:
                return "park"
            return "wait" if found.at is None else "switch" if found.left else "go"
        if version == found.former and not found.left:
            if found.at is not None:
                return "switch"
            return "point" if found.parked is not None else None
        return None

    def after(self, noted: Noted) -> Promotions:
        """A record that does not fit what was before it changes nothing: two may have asked at
        once, and one that was killed says the same again."""
        if noted.kind == ASKED:
            if self.open is not None or noted.version in ("", self.public):
                return self
            begun = Promotion(
                noted.offset, self.public, noted.version, by=noted.by, times={ASKED: noted.time}
            )
            return replace(self, open=begun)
        if self.open is None or noted.number != self.open.number:
            return self
        return self._goes_on(self.open, noted)

    def _goes_on(self, before: Promotion, noted: Noted) -> Promotions:
        found = replace(before, times={**before.times, noted.kind: noted.time})
        match noted.kind:
            case "parked" if found.parked is None:
                return replace(self, open=replace(found, parked=noted.at))
            case "from" if found.parked is not None and found.at is None:
                return replace(self, open=replace(found, at=noted.at))
            case "given up" if found.at is None:
                return replace(self, open=None)
            case "left" if found.at is not None:
                return replace(self, open=replace(found, left=True))
            case "taken" if found.left:
                return Promotions(found.version, None, (*self.done, found))
            case _:  # any other: it came too late, or twice
                return self


def promotions(log: Iterable[Noted]) -> Promotions:
    found = Promotions()
    for each in log:
        found = found.after(each)
    return found


def ahead_of(one: Ends, other: Ends) -> dict[Partition, int]:
    """The first place that is behind neither."""
    found: dict[Partition, int] = {}
    for partition, end in (*one.items(), *other.items()):
        # a topic that is read twice has one X
        found[partition.real] = max(end, found.get(partition.real, 0))
    return found
