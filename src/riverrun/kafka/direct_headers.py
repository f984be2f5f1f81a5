"""Headers of records as columns, from the bytes that librdkafka has kept of them.

They lie behind the value as they came: how many, and of each the sizes and bytes of name and value.
Where that is, is not public. It is believed if it is right behind the values, and if what is read
there of some records is what the public functions say; else those are called for each record.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.kafka.copying import Numbers, copied, slices
from riverrun.kafka.librdkafka import Library, Pointer
from riverrun.kafka.records import HEADERS

SAMPLES = 4
BITS, MORE = 7, 128
"""Of a number whose size varies: of each byte, and what is added where another one follows."""

Found = list[dict[str, Any]] | None


class Headers:
    def __init__(self, library: Library) -> None:
        self.of_message = library.function("message_headers", c.c_int, Pointer, Pointer, quick=True)
        at = (Pointer, c.c_size_t, Pointer, Pointer, Pointer)
        self.one = library.function("header_get_all", c.c_int, *at, quick=True)
        self.found, self.name = c.c_void_p(), c.c_char_p()
        self.value, self.size = c.c_void_p(), c.c_size_t()
        self.places = [c.addressof(each) for each in (self.name, self.value, self.size)]

    def read(
        self, pointers: Numbers, value: Numbers, value_size: Numbers, size: Numbers, at: Numbers
    ) -> pa.Array:
        size = size.astype(np.int32).astype(np.int64)
        if _behind(value, value_size, size, at):
            found = _parsed(at, size)
            sample = range(0, len(pointers), max(1, len(pointers) // SAMPLES))
            if found is not None and all(
                self.public(int(pointers[each])) == found[each].as_py() for each in sample
            ):
                return found
        return pa.array(map(self.public, pointers.tolist()), HEADERS)

    def public(self, message: int) -> Found:
        """As the public functions tell them; None if there are none."""
        if self.of_message(message, c.addressof(self.found)):
            return None
        headers: list[dict[str, Any]] = []
        while not self.one(self.found, len(headers), *self.places):
            name, at = (self.name.value or b"").decode(errors="replace"), self.value.value
            content = None if at is None else c.string_at(at, self.size.value)
            headers.append({"name": name, "value": content})
        return headers


def _behind(value: Numbers, value_size: Numbers, size: Numbers, at: Numbers) -> bool:
    """Whether headers begin right behind the values. One that is empty may be anywhere, so it says
    nothing."""
    seen = value_size > 0
    return bool(
        seen.any() and (at[seen] == value[seen] + value_size[seen]).all() and size.min() > 0
    )


def _parsed(address: Numbers, size: Numbers) -> pa.Array | None:
    """None if these are no headers."""
    data, at = copied(address, size)
    content = np.frombuffer(data, np.uint8)
    try:
        count, at = _numbers(content, at)
        offsets = np.concatenate([[0], np.cumsum(count)])
        names, values = np.zeros((2, 2, offsets[-1]), np.int64)
        rows, number = np.flatnonzero(count > 0), 0
        while len(rows):
            slot = offsets[rows] + number
            length, begin = _numbers(content, at[rows])
            names[:, slot] = begin, length
            length, begin = _numbers(content, begin + length)
            values[:, slot] = begin, length
            at[rows] = begin + np.maximum(length, 0)
            number += 1
            rows = rows[count[rows] > number]
    except (IndexError, ValueError):
        return None
    if max(at, default=0) > len(content) or (count < 0).any():
        return None
    parts = [
        slices(data, names[0], names[1], names[1] < 0),
        slices(data, values[0], np.maximum(values[1], 0), values[1] < 0),
    ]
    try:
        parts[0] = parts[0].cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if pc.any(pc.match_substring(parts[0], "\0")).as_py():
        return None  # the public functions end names there: whichever are asked, it is one name
    pairs = pa.StructArray.from_arrays(parts, fields=list(HEADERS.value_type))
    none = pa.array(count == 0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs, type=HEADERS, mask=none)


def _numbers(data: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers at these places, and the places behind them."""
    value = data[at].astype(np.int64)
    at, more, shift = at + 1, np.flatnonzero(value >= MORE), BITS
    value &= MORE - 1
    while len(more):
        byte = data[at[more]].astype(np.int64)
        value[more] |= (byte & (MORE - 1)) << shift
        at[more] += 1
        more, shift = more[byte >= MORE], shift + BITS
    return (value >> 1) ^ -(value & 1), at
