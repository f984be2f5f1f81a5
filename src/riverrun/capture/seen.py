"""Which transactions a snapshot of the database has seen.

One that is committed is in the log a moment before others see it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """What a snapshot of the database has seen: PostgreSQL's `xmin:xmax:xip,…`."""

    first_open: int
    next: int
    open: frozenset[int]

    @staticmethod
    def of(text: str) -> Seen:
        first_open, following, still = text.split(":")
        running = frozenset(map(int, still.split(","))) if still else frozenset[int]()
        return Seen(int(first_open), int(following), running)

    def whole(self, xid: int) -> int:
        """A transaction's number, of which the log has the lower half."""
        found = self.next >> 32 << 32 | xid
        if found > self.next + (1 << 31):
            return found - (1 << 32)
        return found + (1 << 32) if found < self.next - (1 << 31) else found

    def has(self, xid: int) -> bool:
        number = self.whole(xid)
        return number < self.next and number not in self.open
