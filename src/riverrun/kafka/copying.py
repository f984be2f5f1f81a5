"""Bytes that lie anywhere in memory, copied into columns of Arrow all at once."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
import pyarrow as pa

INLINE = 12
"""A view that is not longer holds the bytes itself."""
WINDOW = 30
"""Bits of a view's offset: there is a buffer for each GB of memory that has messages in it."""

Numbers = np.ndarray[Any, Any]


def copied(address: Numbers, size: Numbers) -> tuple[pa.Buffer, Numbers]:
    """The bytes there, one after the other, and where each begins."""
    views = np.zeros((len(address), 4), np.int32)  # size, first bytes, buffer, offset
    windows = pa.array(address >> WINDOW).dictionary_encode()
    views[:, 0], views[:, 2] = size, windows.indices
    views[:, 3] = address & ((1 << WINDOW) - 1)
    raw = views.view(np.uint8)
    for short in np.flatnonzero((size <= INLINE) & (size > 0)).tolist():
        content = c.string_at(int(address[short]), int(size[short]))
        raw[short, 4:] = np.frombuffer(content.ljust(INLINE, b"\0"), np.uint8)
    starts = (each.as_py() << WINDOW for each in windows.dictionary)
    memory = [pa.foreign_buffer(start, (1 << 31) - 1) for start in starts]
    found = pa.Array.from_buffers(
        pa.binary_view(), len(views), [None, pa.py_buffer(views), *memory]
    )
    _, offsets, data = found.cast(pa.binary()).buffers()
    return data, np.frombuffer(offsets, np.int32)[: len(address)].astype(np.int64)


def slices(data: pa.Buffer, start: Numbers, size: Numbers, null: Numbers) -> pa.Array:
    """Every second of the values that begin and end where a slice does."""
    offsets = np.zeros(2 * len(start) + 1, np.int32)
    offsets[1::2], offsets[2::2] = start, start + size
    values = pa.Array.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(offsets), data])
    wanted = np.arange(1, len(offsets), 2)
    return values.take(pa.array(wanted, mask=null if null.any() else None))
