"""Tokens: what a writer wrote, for a reader who is to see it."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from riverrun.errors import InputError
from riverrun.kernels.letters import AHEAD, DECODE
from riverrun.outputs import Ways
from riverrun.partitions import Partition, real
from riverrun.sinks.viewing.notes import Facts, Revision
from riverrun.views.values import clock_text, moment_text

MARK = "rr1."
State = Literal["there", "waiting", "held", "aside"]


@dataclass(frozen=True)
class Token:
    """The last record of each partition that was written."""

    offsets: tuple[tuple[Partition, int], ...]

    @staticmethod
    def of(written: Mapping[Partition, int]) -> Token:
        return Token(tuple(sorted(written.items())))

    @staticmethod
    def parse(text: str) -> Token:
        try:
            if not text.startswith(MARK):
                raise ValueError(text)
            found = json.loads(base64.urlsafe_b64decode(text.removeprefix(MARK).encode() + b"=="))
            offsets = {
                Partition(str(topic), int(number)): _whole(offset)
                for topic, parts in found.items()
                for number, offset in parts.items()
            }
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
            raise InputError(
                "the token cannot be read", got=repr(text)[:100], hint="give it as it was given"
            ) from error
        return Token.of(offsets)

    def __str__(self) -> str:
        topics: dict[str, dict[str, int]] = {}
        for partition, offset in self.offsets:
            topics.setdefault(partition.topic, {})[str(partition.number)] = offset
        text = base64.urlsafe_b64encode(json.dumps(topics, separators=(",", ":")).encode())
        return MARK + text.decode().rstrip("=")


def _whole(offset: object) -> int:
    if not isinstance(offset, int):
        raise ValueError(offset)
    return offset


@dataclass(frozen=True)
class Note:
    """A batch that is all there."""

    revision: Revision
    tick: int
    facts: Facts


@dataclass(frozen=True)
class Verdict:
    """What has become of the records of a token."""

    state: State
    text: str
    """For people."""
    step: str | None = None
    until: int | None = None
    clock: int | None = None
    """Of a step that holds rows: the time that its clock has to pass, and where it is."""


THERE = Verdict("there", "all that was written has taken effect")


def verdict(token: Token, ways: Ways, notes: Sequence[Note], *, view: str = "") -> Verdict:
    """By the notes of an application's latest checkpoint, in their order."""
    foreign = sorted({each.topic for each, _ in token.offsets} - set(map(real, ways.topics)))
    if foreign:
        raise InputError(
            f"what was written to {foreign[0]!r} never gets to this view",
            hint=f"it is made of {', '.join(ways.topics)}",
        )
    passed = {
        str(partition._replace(topic=topic)): offset + 1
        for partition, offset in token.offsets
        for topic in ways.topics
        if real(topic) == partition.topic
    }
    first = number = _first(notes, passed)
    for _ in range(ways.hops):
        if number < len(notes):
            own = notes[number].facts.own.items()
            ends = {each: end for each, end in own if each.rpartition("/")[0] in ways.own}
            number = _first(notes, ends, number)
    if number == len(notes):
        return Verdict("waiting", "it has not been read yet")
    # what other steps have set aside may have got here all the same
    steps = (DECODE, AHEAD, *ways.steps, f"view:{view}")
    places = [f"{partition}/{offset}" for partition, offset in token.offsets]
    asides: dict[str, str] = {}
    for note, (place, step) in product(notes[first:], product(places, steps)):
        if why := note.facts.aside.get(f"{place} {step}"):
            asides.setdefault(place, why)
    if asides:
        return Verdict("aside", "; ".join(f"{place}: {why}" for place, why in asides.items()))
    return _held(ways, notes[number], notes[-1]) or THERE


def _held(ways: Ways, read: Note, last: Note) -> Verdict | None:
    for step in ways.steps:
        until, clock = read.facts.closes.get(step), last.facts.clocks.get(step)
        if until is not None and (clock is None or clock < until):
            where = clock_text(clock) or "not known"
            text = f"{step} holds rows until its clock is {moment_text(until)}; it is {where}"
            return Verdict("held", text, step, until, clock)
    return None


def _first(notes: Sequence[Note], ends: Mapping[str, int], since: int = 0) -> int:
    """The number of the first batch that has read up to these ends: later ones have, too."""

    def read(note: Note) -> bool:
        return all(note.facts.ends.get(name, 0) >= end for name, end in ends.items())

    return bisect_left(notes, True, lo=since, key=read)
