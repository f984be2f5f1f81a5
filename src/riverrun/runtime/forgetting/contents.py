"""What is in files: as it is, and unpacked where it is packed."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from riverrun.far import AnyPath

PIECE = 8 << 20
PART = 256
"""Bytes that are unpacked together: what is after a frame is no part of it, and fails."""
LZ4_FRAME = b"\x04\x22\x4d\x18"
LZ4_BLOCK = b"LZ4Block"
"""How Spark begins each block of what it compresses."""
ZSTD, GZIP, ZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PK\x03\x04"
UNREADABLE = (
    zipfile.BadZipFile, tarfile.TarError, struct.error, pa.ArrowException, EOFError, ValueError,
)  # fmt: skip


def pieces(path: AnyPath, overlap: int) -> Iterator[bytes]:
    """All bytes of a file in pieces, each with the end of the one before."""
    with path.open("rb") as file:
        yield from _cut(file, overlap)
        file.seek(0)
        try:
            for unpacked in _unpacked(path, file):
                yield from _cut(unpacked, overlap)
        except UNREADABLE:
            return  # half-written, or only looks like an archive: its bytes were looked at


def _cut(file: IO[bytes], overlap: int) -> Iterator[bytes]:
    before = b""
    while data := file.read(PIECE):
        yield before + data
        yield from _frames(before + data)
        before = (before + data)[-overlap:] if overlap else b""


def _frames(data: bytes) -> Iterator[bytes]:
    """What is compressed inside of other bytes: records of Kafka, segments of state."""
    place, whole = data.find(LZ4_FRAME), pa.py_buffer(data)
    while place >= 0:
        stream, found = pa.CompressedInputStream(pa.BufferReader(whole.slice(place)), "lz4"), b""
        try:
            while part := stream.read(PART):
                found += part
        except (OSError, pa.ArrowException):
            pass  # the end of the frame, or of what only looked like one
        if found:
            yield found
        place = data.find(LZ4_FRAME, place + 1)


def _unpacked(path: AnyPath, file: IO[bytes]) -> Iterator[IO[bytes]]:
    first = file.read(8)
    file.seek(0)
    if first.startswith(ZIP):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                yield archive.open(name)
    elif first.startswith(LZ4_BLOCK):
        yield io.BytesIO(b"".join(_lz4_blocks(file.read())))
    elif isinstance(path, Path) and path.suffix == ".parquet":
        yield io.BytesIO(_texts(path))
    elif first.startswith((GZIP, ZSTD)) or tarfile.is_tarfile(file):
        yield from _members(file, first)


def _members(file: IO[bytes], first: bytes) -> Iterator[IO[bytes]]:
    file.seek(0)
    codec = "gzip" if first.startswith(GZIP) else "zstd"
    packed = first.startswith((GZIP, ZSTD))
    whole = io.BytesIO(pa.CompressedInputStream(file, codec).read()) if packed else file
    try:
        with tarfile.open(fileobj=whole) as archive:
            for each in archive:
                member = archive.extractfile(each)
                if member is not None:
                    content = io.BytesIO(member.read())
                    yield content
                    content.seek(0)
                    yield from _unpacked(Path(each.name), content)
    except tarfile.TarError:
        whole.seek(0)
        yield whole


def _lz4_blocks(data: bytes) -> Iterator[bytes]:
    """What Spark's streams hold: a method, two lengths and a checksum before each block."""
    place, codec = 0, pa.Codec("lz4_raw")
    while data[place : place + 8] == LZ4_BLOCK:
        method, packed, size, _ = struct.unpack_from("<BIII", data, place + 8)
        body = data[place + 21 : place + 21 + packed]
        place += 21 + packed
        if size:
            yield body if method & 0xF0 == 0x10 else codec.decompress(body, size).to_pybytes()


def _texts(path: Path) -> bytes:
    """Columns of Parquet are packed one by one."""
    table = pq.read_table(path)
    texts = (column.cast(pa.string()) for column in table.columns if _is_text(column.type))
    return b"\n".join(str(value).encode() for each in texts for value in each.to_pylist())


def _is_text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))
