"""Dead letters: what could not be read or processed, where it was, and why."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from riverrun.errors import PACKAGE

LETTER = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us")), ("step", pa.string()), ("cause", pa.string()),
        ("key", pa.string()), ("value", pa.string()), ("value_base64", pa.string()),
        ("__at", pa.timestamp("us")), ("__pos", pa.int64()), ("__sub", pa.int64()),
    ]
)  # fmt: skip


class Place(NamedTuple):
    """Where a row stands among all: its time, and its position."""

    at: datetime
    pos: int
    sub: int


def letter(
    place: Place, topics: tuple[str, ...], key: Mapping[str, Any], value: Mapping[str, Any]
) -> dict[str, Any]:
    """A row of a step as a dead letter. Its record's bytes are gone: its value is the row."""
    read = place.pos >= 0  # what a timer gave was never in a topic
    keys = list(key.values())
    return {
        "topic": topics[place.pos >> 56] if read else None,
        "partition": place.pos >> 40 & 0xFFFF if read else None,
        "offset": place.pos & ((1 << 40) - 1) if read else None,
        "timestamp": place.at,
        "key": keys[0] if len(keys) == 1 and isinstance(keys[0], str) else as_json(key),
        "value": as_json(value),
        "value_base64": None,
        "__at": place.at,
        "__pos": place.pos,
        "__sub": place.sub,
    }


def letters_frame(letters: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.Table.from_pylist(letters, schema=LETTER)))


def cause_of(error: Exception) -> str:
    """The error's type and message, and the user's line that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), default=_text)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    return value.isoformat() if isinstance(value, date | time) else str(value)
