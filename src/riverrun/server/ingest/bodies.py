"""Bodies of requests: one record, an array of them, or one on each line.

Each record goes on as it was sent, not as Python would write it: no digit of a number is lost.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from riverrun import exact
from riverrun.server.answers import Refused

Kind = Literal["json", "lines"]
TYPES: dict[str, Kind] = {
    "application/json": "json",
    "application/x-ndjson": "lines",
    "application/ndjson": "lines",
    "application/jsonl": "lines",
}
SPACE = re.compile(r"[ \t\n\r]*")
DEEP = "it is nested too deep"
NO_OBJECT = "the value is not a JSON object"
UNPAIRED = re.compile("[\ud800-\udfff]")
"""Halves of signs: JSON can escape them, text in UTF-8 cannot hold them."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a record."""

    record: int
    """Its number in the request, from 0 on; of lines, that of the line, empty ones too."""
    column: str | None
    cause: str

    def told(self) -> dict[str, Any]:
        return {"record": self.record, "column": self.column, "cause": shown(self.cause)}


@dataclass(frozen=True)
class Given:
    """A record as it was sent."""

    number: int
    text: str
    fields: dict[str, Any]


def shown(text: str) -> str:
    """Text that can be sent."""
    return UNPAIRED.sub("\ufffd", text)


def kind_of(content_type: str | None) -> Kind:
    """A browser asks before it sends these to another site: no form can."""
    type, _, rest = (content_type or "").partition(";")
    kind = TYPES.get(type.strip().lower())  # any other: refused
    other = re.search(r"charset\s*=\s*\"?(?!utf-?8\b)", rest, re.IGNORECASE)
    if kind is None or other:
        raise Refused(
            415, "records are sent as JSON", got=shown(content_type or "no Content-Type")[:100],
            hint="Content-Type: application/json, or application/x-ndjson with one on each line",
        )  # fmt: skip
    return kind


def records_of(body: bytes, kind: Kind) -> Iterator[Given | Fault]:
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Refused(400, "the request is not UTF-8 text", got=f"byte {error.start}") from error
    begin = _after_space(text, 0)
    if kind == "lines":
        yield from _lines(text)
    elif text[begin : begin + 1] == "[":
        yield from _items(text, begin + 1)
    else:
        found, end = Decoder(_place).read(text, begin, 0)
        yield found
        if isinstance(found, Given) and _after_space(text, end) != len(text):
            yield Fault(0, None, f"the value is not JSON: {_place(text, end)}")


def _lines(text: str) -> Iterator[Given | Fault]:
    decoder = Decoder(lambda line, place: f"column {place + 1} of the line")
    for number, line in enumerate(text.split("\n")):
        if not line.strip():
            continue
        found, end = decoder.read(line, _after_space(line, 0), number)
        if isinstance(found, Given) and _after_space(line, end) != len(line):
            found = Fault(number, None, f"the line goes on after the value, in column {end + 1}")
        yield found


def _items(text: str, place: int) -> Iterator[Given | Fault]:
    """Up to the first that is no JSON: nobody knows where it ends."""
    decoder, number = Decoder(_place), 0
    place = _after_space(text, place)
    if text[place : place + 1] == "]":
        place += 1
    else:
        while True:
            found, place = decoder.read(text, place, number)
            yield found
            if place < 0:
                return
            place, number = _after_space(text, place), number + 1
            sign, place = text[place : place + 1], _after_space(text, place + 1)
            if sign == "]":
                break
            if sign != ",":
                yield Fault(number, None, f"the array does not go on: {_place(text, place - 1)}")
                return
    if _after_space(text, place) != len(text):
        yield Fault(number, None, f"there is more after the array: {_place(text, place)}")


class Decoder:
    """Reads one value after the other, and tells what Python would not mind."""

    def __init__(self, place: Callable[[str, int], str]) -> None:
        """`place` tells where something is."""
        self.place = place
        self.wrong: list[str] = []
        self.json = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant,
            parse_int=str, parse_float=str,
        )  # fmt: skip

    def read(self, text: str, place: int, number: int) -> tuple[Given | Fault, int]:
        """The value there, and where it ends: -1 if it is none."""
        self.wrong.clear()
        try:
            value, end = self.json.raw_decode(text, place)
        except json.JSONDecodeError as error:
            cause = f"the value is not JSON: {error.msg}, {self.place(text, error.pos)}"
            return Fault(number, None, cause), -1
        except RecursionError:
            return Fault(number, None, DEEP), -1
        if self.wrong:
            return Fault(number, None, self.wrong[0]), end
        if not isinstance(value, dict):
            return Fault(number, None, NO_OBJECT), end
        return Given(number, text[place:end], value), end

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            self.wrong.append(f"{twice[:100]!r} is there twice")
        return found

    def _constant(self, word: str) -> None:
        self.wrong.append(f"{word} is no JSON")


def stamped(given: Given, column: str, received: str | int | float) -> str:
    """The record with the time at which it was received, unless it has one."""
    if given.fields.get(column) is not None:
        return given.text
    if column in given.fields:
        return exact.dumps({**exact.loads(given.text), column: received})
    comma = ", " if given.fields else ""
    return f"{given.text[:-1]}{comma}{json.dumps(column)}: {json.dumps(received)}}}"


def instant_of(milliseconds: int) -> str:
    found = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def _after_space(text: str, place: int) -> int:
    found = SPACE.match(text, place)
    assert found is not None
    return found.end()


def _place(text: str, place: int) -> str:
    line = text.count("\n", 0, place) + 1
    return f"line {line}, column {place - text.rfind(chr(10), 0, place)}"
