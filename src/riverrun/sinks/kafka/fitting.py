"""Dead letters that their topic takes: what is too long is cut, and the letter says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from riverrun.kafka import admin

SURE = 16 << 10
"""Bytes of a record that any topic takes."""
LARGEST = "1000000"
"""What Kafka's client takes if it is not told otherwise."""
BESIDE = 2 << 10
PARTS = 8
"""A text of a letter that is cut gets such a part of the room: there are six, with its own key."""
TEXTS = ("cause", "key", "key_base64", "value", "value_base64", "row")


def room(client: Mapping[str, str], topic: str) -> int:
    """Bytes for the key and the value of a record; what does not shrink may grow by compression."""
    taken = int(admin.settings(client, topic)["max.message.bytes"])
    return min(int(client.get("message.max.bytes", LARGEST)), taken * 49 // 50) - BESIDE


def fitted(letters: pa.Table, sizes: Iterable[int], largest: int) -> pa.Table:
    """The letters, those of a larger size cut. Where the record is stays: it can be read there."""
    schema = letters.schema
    # as numbers: Python's own times end with the year 9999, those of records do not
    plain = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in schema]
    rows = letters.cast(pa.schema(zip(schema.names, plain, strict=True))).to_pylist()
    made = [
        row if size <= largest else _cut(row, largest // PARTS)
        for row, size in zip(rows, sizes, strict=True)
    ]
    return pa.Table.from_pylist(made, schema=schema)


def _cut(row: dict[str, Any], most: int) -> dict[str, Any]:
    long = [name for name in (*TEXTS, "headers") if _size(row[name]) > most]
    shorter = {name: _shortened(row[name], most) for name in long if name in TEXTS}
    return {**row, **shorter, **({"headers": None} if "headers" in long else {}), "cut": long}


def _shortened(text: str, most: int) -> str:
    """By halves, so that base64 is still some."""
    while _size(text) > most:
        text = text[: len(text) // 8 * 4]
    return text


def _size(content: Any) -> int:
    """As JSON, where a sign may take six bytes."""
    return len(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
