"""What a worker has done, counted."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from threading import RLock
from typing import Any


@dataclass
class Counts:
    """Of one process, since its queue was opened."""

    taken: int = 0
    done: int = 0
    released: int = 0
    """Given back, to be delivered again."""
    rejected: int = 0
    """Written to the dead letters."""
    lost: int = 0
    """Done, released or rejected when the lock had run out: others have or had the record too."""
    again: int = 0
    """Taken that were delivered before: a worker had failed, died, or lost its lock."""
    skipped: int = 0
    """Retried for another group."""
    # a message that is collected is counted, whatever its thread is at
    _lock: Any = field(default_factory=RLock, repr=False, compare=False)

    def add(self, *names: str) -> None:
        with self._lock:
            for name in names:
                setattr(self, name, getattr(self, name) + 1)

    def as_dict(self) -> dict[str, int]:
        found: dict[str, Any] = {
            each.name: getattr(self, each.name) for each in fields(self) if each.compare
        }
        return found
