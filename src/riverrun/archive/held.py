"""What a program reads from an archive: told when it is planned, and the same ever after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.partitions import Partition


@dataclass(frozen=True)
class Held:
    """Where a partition is read from: parts of the archive, then the topic."""

    parts: tuple[tuple[int, int], ...]
    """Offsets from which and to which the archive has all records; what is between them is gone."""
    topic: int
    """The offset from which on the topic is read."""

    def logged(self) -> dict[str, Any]:
        return {"parts": [list(each) for each in self.parts], "topic": self.topic}

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> Held:
        return cls(tuple((start, end) for start, end in logged["parts"]), logged["topic"])


@dataclass(frozen=True)
class Archived:
    """An archive's folder, and what is read from there. It travels to tasks."""

    root: Path
    held: tuple[tuple[Partition, Held], ...]
    """By partitions of topics themselves, whatever they are called where they are read."""

    @classmethod
    def of(cls, root: Path, held: Mapping[Partition, Held]) -> Archived | None:
        """None if nothing is."""
        return cls(root, tuple(sorted(held.items()))) if held else None
