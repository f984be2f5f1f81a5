"""Records as they are in a topic: one, or those of a partition as columns of Arrow."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Record:
    """What is to be sent. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    partition: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

HOLDING = ("__value", "__key", "__headers")
"""Columns whose bytes count where lots and batches are bounded."""

AS_PAIRS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
"""What headers are cast to whose names are texts: Arrow does not flatten maps."""

_COLUMNS = {
    "__value": pa.binary(),
    "__key": pa.binary(),
    "__timestamp": pa.int64(),
    "__offset": pa.int64(),
}


def columns_of(records: Mapping[str, Any], headers: Sequence[Any] | None) -> pa.Table:
    """Columns of records, given as sequences of Python's objects or as arrays."""
    columns = {name: pa.array(records[name], type) for name, type in _COLUMNS.items()}
    if headers is not None:
        columns["__headers"] = pa.array(headers, HEADERS)
    return pa.table(columns)


def bytes_of(column: pa.ChunkedArray) -> int:
    """Of the contents alone, however they came: keys, values, or names and values of headers."""
    if pa.types.is_null(column.type):
        return 0
    if pa.types.is_map(column.type):
        column = column.cast(AS_PAIRS)
    if pa.types.is_nested(column.type):
        pairs = pc.list_flatten(column)
        return sum(bytes_of(pc.struct_field(pairs, each)) for each in (0, 1))
    return pc.sum(pc.binary_length(column)).as_py() or 0


def no_records(*, headers: bool) -> pa.Table:
    return columns_of(dict.fromkeys(_COLUMNS, ()), () if headers else None)


def text_or_base64(content: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as text, or in base64 if they are none."""
    if content is None:
        return None, None
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(content).decode()
