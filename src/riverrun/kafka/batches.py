"""Records as brokers store and send them: batches, perhaps compressed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from riverrun.errors import BrokerError
from riverrun.kafka.wire import Cursor

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Of a batch: where it begins, its length, …, its attributes, …, how many records it has."""
LENGTH_FROM = 12
"""The length counts what comes after itself."""
MAGIC = 2
COMPRESSION, APPEND_TIME, CONTROL = 0b111, 0b1000, 0b100000
XERIAL = b"\x82SNAPPY\0"
"""How Java frames what Snappy has compressed."""

Headers = list[tuple[str, bytes | None]]


class Stored(NamedTuple):
    """A record of a partition; its time is in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Batch:
    """Records that were written together."""

    base: int
    last: int
    content: memoryview
    """All of it, with its header."""

    @property
    def attributes(self) -> int:
        return int(HEADER.unpack_from(self.content)[5])

    def records(self) -> Iterator[Stored]:
        """None of a batch of control records, which tell how transactions ended."""
        fields = HEADER.unpack_from(self.content)
        attributes, first_time, last_time, count = fields[5], fields[7], fields[8], fields[12]
        if attributes & CONTROL:
            return
        raw = self.content[HEADER.size :]
        cursor = Cursor(memoryview(UNPACKED[attributes & COMPRESSION](raw)))
        for _ in range(count):
            found = _record(cursor, self.base, first_time)
            yield found._replace(timestamp=last_time) if attributes & APPEND_TIME else found


def batches(content: memoryview) -> Iterator[Batch]:
    """The batches that are there as a whole: the last may be cut."""
    at = 0
    while at + HEADER.size <= len(content):
        fields = HEADER.unpack_from(content, at)
        end = at + LENGTH_FROM + fields[1]
        if end > len(content):
            return
        if fields[3] != MAGIC:
            raise BrokerError("records are in a form of before Kafka 0.11", got=f"v{fields[3]}")
        yield Batch(fields[0], fields[0] + fields[6], content[at:end])
        at = end


def _record(cursor: Cursor, base: int, first_time: int) -> Stored:
    end = cursor.signed() + cursor.at
    cursor.take(1)  # attributes, of which there are none
    time, offset = first_time + cursor.signed(), base + cursor.signed()
    key, value = _content(cursor), _content(cursor)
    headers: Headers = []
    for _ in range(cursor.signed()):
        name = bytes(cursor.take(cursor.signed())).decode(errors="replace")
        headers.append((name, _content(cursor)))
    cursor.at = end
    return Stored(offset, time, key, value, headers)


def _content(cursor: Cursor) -> bytes | None:
    size = cursor.signed()
    return None if size < 0 else bytes(cursor.take(size))


def _plain(content: memoryview) -> bytes | memoryview:
    return content


def _gzip(content: memoryview) -> bytes:
    return zlib.decompress(content, wbits=31)


def _streamed(name: str) -> Callable[[memoryview], bytes]:
    def unpacked(content: memoryview) -> bytes:
        with pa.input_stream(pa.py_buffer(content), compression=name) as stream:
            found: bytes = stream.read()
            return found

    return unpacked


def _snappy(content: memoryview) -> bytes:
    if bytes(content[: len(XERIAL)]) != XERIAL:
        return _raw_snappy(content)
    found, at = bytearray(), 16
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        found += _raw_snappy(content[at + 4 : at + 4 + size])
        at += 4 + size
    return bytes(found)


def _raw_snappy(content: memoryview) -> bytes:
    """It begins with the size that it will have."""
    size = Cursor(content).varint()
    made: bytes = pa.Codec("snappy").decompress(bytes(content), size, asbytes=True)
    return made


UNPACKED: dict[int, Callable[[memoryview], bytes | memoryview]] = {
    0: _plain,
    1: _gzip,
    2: _snappy,
    3: _streamed("lz4"),
    4: _streamed("zstd"),
}
"""By the number that Kafka has for each compression."""
