"""Records as they are in a topic: one, or those of a partition as columns of Arrow."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Record:
    """What is to be sent. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    partition: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

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
