"""Records as they are in a topic: one, or those of a partition as lists."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """What is to be sent. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    partition: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Columns:
    """Records of one partition, as lists."""

    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    headers: list[Any] | None = None
    """As they were read; None if they were not."""

    @classmethod
    def empty(cls, *, headers: bool) -> Columns:
        return cls(headers=[] if headers else None)


def text_or_base64(content: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as text, or in base64 if they are none."""
    if content is None:
        return None, None
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(content).decode()
