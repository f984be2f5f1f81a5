"""What is sent, made ready to be written: read, stamped, checked against all who read the topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import duckdb

from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.schema import first_line
from riverrun.server.answers import Refused
from riverrun.server.ingest.bodies import (
    Fault,
    Given,
    Kind,
    instant_of,
    records_of,
    shown,
    stamped,
)
from riverrun.server.ingest.checking import Sent
from riverrun.server.ingest.opened import Opened
from riverrun.sinks.kafka.fitting import SURE, Limits

TOLD = 1000
"""Faults that are told of one request."""
NAMES = 20
RECORDS = 50_000
"""Of one request: others are not to wait for it long."""


@dataclass(frozen=True)
class Body:
    """A request, as it came."""

    topic: Opened
    content: bytes
    kind: Kind
    received: int
    """Milliseconds."""


@dataclass
class Checked:
    """What a request holds: what can be written, and what is wrong with the rest."""

    records: list[tuple[bytes | None, bytes]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """Names that nobody reads."""

    @property
    def refused(self) -> int:
        return len({each.record for each in self.faults})

    def told(self) -> dict[str, Any]:
        """What is wrong, for answers."""
        faults = sorted(self.faults, key=lambda each: each.record)
        more = {"more_errors": len(faults) - TOLD} if len(faults) > TOLD else {}
        return {"refused": self.refused, "errors": [each.told() for each in faults[:TOLD]], **more}

    def unread(self) -> dict[str, Any]:
        names = sorted(shown(name)[:100] for name in self.unknown)[:NAMES]
        return {"unknown_columns": names} if names else {}


class Checking:
    """Used by one thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def limits(self) -> Limits:
        return Limits({**kafka.client(self.settings), "message.max.bytes": str(64 << 20)})

    def check(self, bodies: list[Body]) -> list[Checked | Exception]:
        """Those of one topic together; if that fails, each alone."""
        found: dict[int, Checked | Exception] = {}
        by_topic: dict[int, list[int]] = {}
        for number, body in enumerate(bodies):
            by_topic.setdefault(id(body.topic), []).append(number)
        for numbers in by_topic.values():
            try:
                made: Sequence[Checked | Exception] = self._check([bodies[n] for n in numbers])
            except Exception:
                made = [self._alone(bodies[n]) for n in numbers]
            found |= zip(numbers, made, strict=True)
        return [found[number] for number in range(len(bodies))]

    def _alone(self, body: Body) -> Checked | Exception:
        try:
            return self._check([body])[0]
        except duckdb.Error as error:
            return Refused(400, "the records cannot be read", got=shown(first_line(error))[:200])
        except Exception as error:
            return error

    def _check(self, bodies: list[Body]) -> list[Checked]:
        topic = bodies[0].topic
        made = [Checked() for _ in bodies]
        places: list[tuple[Checked, Sent]] = []
        for body, checked in zip(bodies, made, strict=True):
            places += [(checked, each) for each in self._read(body, checked)]
        keys, wrong = _judged(topic, [sent for _, sent in places])
        for place, (checked, sent) in enumerate(places):
            if place in wrong:
                checked.faults += [
                    Fault(sent.number, each.column, each.cause) for each in wrong[place]
                ]
            else:
                checked.records.append((keys[place], sent.value))
        return made

    def _read(self, body: Body, checked: Checked) -> Iterable[Sent]:
        """The records, with the time of receipt; what is not even one goes to the faults."""
        columns = body.topic.columns.keys()
        stamps = {name: _stamp(type, body.received) for name, type in body.topic.stamps()}
        for count, each in enumerate(records_of(body.content, body.kind)):
            if count == RECORDS:
                raise Refused(413, "there are too many records", hint=f"at most {RECORDS:,}")
            if isinstance(each, Fault):
                checked.faults.append(each)
                continue
            checked.unknown |= each.fields.keys() - columns
            value = _stamped(each, stamps).encode()
            if len(value) > SURE and len(value) > (room := self.limits.room(body.topic.name)):
                cause = f"it has {len(value):,} bytes, and the topic takes {room:,}"
                checked.faults.append(Fault(each.number, None, cause))
                continue
            yield Sent(each.number, value, body.received)


def _judged(
    topic: Opened, records: list[Sent]
) -> tuple[list[bytes | None], dict[int, list[Fault]]]:
    """The keys, and by place what any of those who read the topic cannot read."""
    numbered = [Sent(place, each.value, each.received) for place, each in enumerate(records)]
    keys: list[bytes | None] = [None] * len(records)
    wrong: dict[int, list[Fault]] = {}
    if not records:
        return keys, wrong
    for reader in topic.readers:
        own, faults = reader.checker.check(numbered)
        if reader.checker.key == topic.key:
            keys = own
        for each in faults:
            told = wrong.setdefault(each.record, [])
            if each not in told:
                told.append(each)
    return keys, wrong


def _stamped(given: Given, stamps: dict[str, str | float]) -> str:
    text = given.text
    for column, received in stamps.items():
        text = stamped(Given(given.number, text, given.fields), column, received)
    return text


def _stamp(type: str, received: int) -> str | float:
    """The time of receipt, as the column has its times."""
    match type:
        case "TIMESTAMP_S":
            return received / 1000
        case "TIMESTAMP_MS":
            return received
        case _:  # any other: text in ISO 8601
            return instant_of(received)
