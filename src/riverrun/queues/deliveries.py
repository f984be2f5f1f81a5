"""A record in hand: whose it is, for how long, and what becomes of it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from riverrun.kafka.batches import Stored
from riverrun.partitions import Partition


@dataclass(eq=False)
class Delivery:
    """A record that the broker has locked for us."""

    partition: Partition
    record: Stored
    number: int
    """How often it has been delivered, this time included."""
    taken_at: float
    """By the monotonic clock, as are all times here."""
    lock: float
    """Seconds, unless it is renewed."""
    renewed_at: float = 0.0
    lost: bool = False
    """The lock is known to have run out: somebody else may have the record."""

    def __post_init__(self) -> None:
        self.renewed_at = self.renewed_at or self.taken_at

    @property
    def place(self) -> str:
        return f"{self.partition}/{self.record.offset}"

    @property
    def left(self) -> float:
        """Seconds until the lock runs out if it is not renewed."""
        return max(self.renewed_at + self.lock - time.monotonic(), 0.0)


@dataclass(eq=False)
class Settlement:
    """What is to become of a delivery: told to the broker, whose answer is awaited."""

    delivery: Delivery
    kind: int
    due_at: float = 0.0
    """Not before: until then the record stays locked."""
    answer: Future[bool] = field(default_factory=Future)
    """Whether the broker has taken it: False if the lock had run out."""

    def answered(self, taken: bool) -> None:
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_result(taken)
