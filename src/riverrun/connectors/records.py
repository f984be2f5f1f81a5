"""Raw records as lots: columns of Arrow, whatever they were read from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from riverrun.kernels.lots import Lot

LOT = 1 << 16
"""Lots are cut at multiples of this offset, so that a range read again is cut the same."""

HEADERS = pa.map_(pa.string(), pa.string())


@dataclass
class Columns:
    """Records of one partition, as lists."""

    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[list[tuple[str, str | None]]] | None = None

    def cut(self, stop: int) -> tuple[Columns, Columns]:
        """The records before an offset, and the others."""
        place = bisect_left(self.offsets, stop)
        if place == len(self.offsets):
            return self, Columns(headers=None if self.headers is None else [])
        return self._slice(0, place), self._slice(place, len(self.offsets))

    def _slice(self, start: int, end: int) -> Columns:
        return Columns(
            self.offsets[start:end],
            self.values[start:end],
            self.keys[start:end],
            self.timestamps[start:end],
            None if self.headers is None else self.headers[start:end],
        )

    def lot(self, topic: str, partition: int, start: int) -> Lot:
        values, garbled = _as_text(self.values, self.offsets)
        columns = {
            "__value": values,
            "__key": pa.array(self.keys, pa.binary()),
            "__timestamp": pa.array(self.timestamps, pa.int64()),
            "__offset": pa.array(self.offsets, pa.int64()),
        }
        if self.headers is not None:
            columns["__headers"] = pa.array(self.headers, HEADERS)
        return Lot(topic, partition, start, pa.table(columns), garbled)


def _as_text(
    values: Sequence[bytes | None], offsets: Sequence[int]
) -> tuple[pa.Array, dict[int, bytes]]:
    try:
        texts = pa.array(values, pa.string())
        texts.validate(full=True)
        return texts, {}
    except pa.ArrowInvalid:
        garbled = {
            offset: value
            for offset, value in zip(offsets, values, strict=True)
            if value is not None and not _readable(value)
        }
        clean = [v if o not in garbled else None for o, v in zip(offsets, values, strict=True)]
        return pa.array(clean, pa.string()), garbled


def _readable(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def unique_headers(
    headers: Mapping[str, Any] | Sequence[tuple[str, Any]] | None,
) -> list[tuple[str, str | None]]:
    """The last value of each name, as text."""
    found: dict[str, str | None] = {}
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return list(found.items())
