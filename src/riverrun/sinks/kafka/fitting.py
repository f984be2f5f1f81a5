"""What a topic takes: rows that are longer are told apart, dead letters that are longer are cut."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.kafka import admin

SURE = 16 << 10
"""Bytes of a record that any topic takes."""
LARGEST = "1000000"
"""What Kafka's client takes if it is not told otherwise."""
BESIDE = 2 << 10
AHEAD = "message.timestamp.after.max.ms"
APART, LAST = 60_000, 1 << 62
"""Milliseconds: that the clocks of brokers may differ, and what older ones take."""
PARTS = 8
"""A text of a letter that is cut gets such a part of the room: there are six, with its own key."""
WIDEST = 48
"""Of a value that is no text, in JSON."""
Times = np.ndarray[Any, np.dtype[np.int64]]
TEXTS = ("cause", "key", "key_base64", "value", "value_base64", "row")


class Limits:
    """What topics take of a record."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self.largest = int(client.get("message.max.bytes", LARGEST))
        self.settings = cache(partial(admin.settings, client))

    def room(self, topic: str) -> int:
        """Bytes for its key and its value; what does not shrink may grow by compression."""
        taken = int(self.settings(topic)["max.message.bytes"])
        return min(self.largest, taken * 49 // 50) - BESIDE

    def times(self, topic: str, wanted: Times) -> Times:
        """Timestamps in milliseconds: brokers refuse one that is too far ahead, by default more
        than an hour, and the client has 0 for now."""
        now = time.time_ns() // 1_000_000
        latest = int(wanted.max(initial=0))
        if latest > now:
            latest = now + int(self.settings(topic).get(AHEAD, LAST)) - APART
        return np.clip(wanted, 1, max(latest, 1))


def longest_row(rows: pa.Table) -> int:
    """Bytes that no row has more of, its names included: a bound that is quick to tell."""
    return sum(
        len(name) + max((_longest(chunk) for chunk in rows[name].chunks), default=0)
        for name in rows.column_names
    )


def _longest(values: pa.Array) -> int:
    type = values.type
    if pa.types.is_struct(type):
        fields = (values.field(number) for number in range(type.num_fields))
        return sum(len(f.name) + _longest(v) for f, v in zip(type, fields, strict=True))
    if pa.types.is_map(type):
        return _most(values) * (_longest(values.keys) + _longest(values.items))
    if pa.types.is_nested(type):
        return _most(values) * _longest(values.flatten())
    if pa.types.is_string(type) or pa.types.is_binary(type) or pa.types.is_large_string(type):
        return pc.max(pc.binary_length(values)).as_py() or 0
    return WIDEST


def _most(values: pa.Array) -> int:
    """Items of one list."""
    if pa.types.is_fixed_size_list(values.type):
        return int(values.type.list_size)
    lengths = np.diff(values.offsets.to_numpy()) if len(values) else np.zeros(1)
    return int(lengths.max())


def fitted(letters: pa.Table, sizes: Iterable[int], largest: int) -> pa.Table:
    """The letters, those of a larger size cut. Where the record is stays: it can be read there."""
    schema = letters.schema
    # as numbers: Python's own times end with the year 9999, those of records do not
    plain = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in schema]
    rows = letters.cast(pa.schema(zip(schema.names, plain, strict=True))).to_pylist()
    made = [
        row if size <= largest else cut(row, largest // PARTS)
        for row, size in zip(rows, sizes, strict=True)
    ]
    return pa.Table.from_pylist(made, schema=schema)


def cut(row: dict[str, Any], most: int) -> dict[str, Any]:
    """A letter whose texts have so many bytes at most, and which says so."""
    long = [name for name in (*TEXTS, "headers") if _size(row[name]) > most]
    shorter = {name: _shortened(row[name], most) for name in long if name in TEXTS}
    return {
        **row,
        **shorter,
        **({"headers": None} if "headers" in long else {}),
        "cut": [*(row.get("cut") or ()), *long],
    }


def _shortened(text: str, most: int) -> str:
    """By halves, so that base64 is still some."""
    while _size(text) > most:
        text = text[: len(text) // 8 * 4]
    return text


def _size(content: Any) -> int:
    """As JSON, where a sign may take six bytes."""
    return len(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
