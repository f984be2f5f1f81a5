"""What survives a crash of the test driver, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from riverrun.sources.admission import Ends


@dataclass
class MemoryStore:
    """A page's segments in a dictionary."""

    data: dict[str, bytes] = field(default_factory=dict)

    def get(self, segment: str) -> bytes:
        return self.data[segment]

    def put(self, segment: str, data: bytes) -> None:
        self.data[segment] = data

    def remove(self, segment: str) -> None:
        del self.data[segment]


Place = tuple[int, int]
"""An exchange and a page."""


@dataclass
class Checkpoint:
    """What survives a crash: how far was read, each page's state, and what was said of time."""

    read: Ends = field(default_factory=dict)
    heads: dict[Place, bytes] = field(default_factory=dict)
    stores: dict[Place, MemoryStore] = field(default_factory=dict)
    clocks: dict[str, int] | None = field(default_factory=dict)
    control: int = 0
    paused: list[str] = field(default_factory=list)
    histories: Mapping[str, str] = field(default_factory=dict)


class Planned(NamedTuple):
    """What a batch is to do, as a job would log it."""

    tick: int
    ends: Ends
    ended: bool
    control: int
    closing: dict[str, int] | None
