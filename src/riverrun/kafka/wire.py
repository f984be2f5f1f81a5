"""Kafka's own encoding of requests and answers, as far as it is flexible: shapes to bytes and back.

A shape is a dictionary of names and types, in order. A type is one of `NUMBERS`, `uuid`, `text` or
`bytes`, a shape, a list of one type, or a tuple of one shape, which may be absent. Texts, bytes and
lists may be None.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

Shape = Mapping[str, Any]
NUMBERS = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}
NO_TAGS = b"\0"


def packed(shape: Shape, values: Mapping[str, Any]) -> bytes:
    """A struct; each of its fields has to be given."""
    return b"".join([_packed(kind, values[name]) for name, kind in shape.items()]) + NO_TAGS


def _packed(kind: Any, value: Any) -> bytes:
    match kind:
        case str() if kind in NUMBERS:
            return NUMBERS[kind].pack(value)
        case "uuid":
            found: bytes = value.bytes
            return found
        case "text":
            return _sized(None if value is None else value.encode())
        case "bytes":
            return _sized(value)
        case [inner]:
            return _listed(inner, value)
        case Mapping():
            return packed(kind, value)
        case _:
            raise ValueError(f"{kind!r} is no type")


def _sized(content: bytes | None) -> bytes:
    return varint(0) if content is None else varint(len(content) + 1) + content


def _listed(inner: Any, values: list[Any] | None) -> bytes:
    if values is None:
        return varint(0)
    return varint(len(values) + 1) + b"".join([_packed(inner, each) for each in values])


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


@dataclass
class Cursor:
    """A place in bytes that are read one after the other."""

    content: bytes | memoryview
    at: int = 0

    def take(self, size: int) -> bytes | memoryview:
        end = self.at + size
        if size < 0 or end > len(self.content):
            raise ValueError(f"{size} bytes are wanted, {len(self.content) - self.at} are left")
        found = self.content[self.at : end]
        self.at = end
        return found

    def number(self, kind: str) -> Any:
        code = NUMBERS[kind]
        return code.unpack(self.take(code.size))[0]

    def varint(self) -> int:
        shift = found = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def signed(self) -> int:
        """A number as records have them: those near zero are short, below it too."""
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def read(self, shape: Shape) -> dict[str, Any]:
        found = {name: self._read(kind) for name, kind in shape.items()}
        self.skip_tags()
        return found

    def _read(self, kind: Any) -> Any:
        match kind:
            case str() if kind in NUMBERS:
                return self.number(kind)
            case "uuid":
                return UUID(bytes=bytes(self.take(16)))
            case "text":
                found = self._sized()
                return None if found is None else bytes(found).decode()
            case "bytes":
                return self._sized()
            case (inner,) if isinstance(kind, tuple):
                return self.read(inner) if self.number("int8") >= 0 else None
            case [inner]:
                count = self.varint() - 1
                return None if count < 0 else [self._read(inner) for _ in range(count)]
            case Mapping():
                return self.read(kind)
            case _:
                raise ValueError(f"{kind!r} is no type")

    def _sized(self) -> bytes | memoryview | None:
        size = self.varint() - 1
        return None if size < 0 else self.take(size)
