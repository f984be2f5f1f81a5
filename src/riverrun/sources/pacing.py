"""Back-pressure: how many records a batch may hold, so that it takes about as long as wanted, and
fits memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FIRST = 100_000
"""Records of the first batch: nothing is known yet."""

GROWS = 4
"""At most so many times as large as a batch before is a batch."""

LEAST = ENOUGH = 1_000
"""Batches of fewer records say nothing of how long more would take. None is made of fewer: where
other work fills the machine they take as long, and it would take many to find that out."""

SLACK = 0.2
"""Within this share of the wanted time, the size stays as it is."""


MOST_BYTES = 256 << 20
"""Keys and values of a batch, about."""
UNWEIGHED = 10_000
"""Records of a batch with a topic of which no record has been read yet."""

UNLIKE = 1.5
"""Batches whose sizes differ by this factor tell what a batch costs whatever its size."""

USEFUL = 2
"""A batch takes at least so many times what any batch costs: smaller ones would get less done."""


class Pacer:
    """Learns from how long batches take. It grows by steps, and shrinks at once.

    What it decides is logged with the batch, so a batch that is run again is the same.
    """

    def __init__(
        self,
        most: int,
        seconds: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `seconds`, batches are as large as they may be."""
        self.most, self.seconds, self.clock = most, seconds, clock
        self.size = most if seconds is None else min(FIRST, most)
        self.begun: tuple[float, int] | None = None
        self.last: tuple[float, int] | None = None
        """How long the last batch took that tells something, and its records."""
        self.fixed = 0.0
        """Seconds that a batch takes whatever its size, as far as is known."""

    def begin(self, records: int) -> None:
        """A batch of so many records starts now."""
        self.begun = (self.clock(), records)

    def end(self) -> None:
        """The batch that was begun, if any, is done."""
        if self.begun is None or self.seconds is None:
            return
        (began_at, records), self.begun = self.begun, None
        took = max(self.clock() - began_at, 1e-3)
        full = 2 * records >= self.size
        if not (full or records >= ENOUGH):
            return
        self._learn(took, records)
        wanted = max(self.seconds, USEFUL * self.fixed)
        if abs(took / wanted - 1) <= SLACK:
            return
        fitting = int(records * (wanted - self.fixed) / max(took - self.fixed, 1e-3))
        if took > wanted:
            self.size = max(min(fitting, self.size), min(LEAST, self.most))
        elif full:
            self.size = min(max(fitting, self.size), GROWS * self.size, self.most)

    def _learn(self, took: float, records: int) -> None:
        """What is left when the records of two batches of other sizes are taken away."""
        if self.last is not None:
            before, others = self.last
            if max(records, others) >= UNLIKE * min(records, others):
                each = max((took - before) / (records - others), 0.0)
                self.fixed = max(took - each * records, 0.0)
        self.fixed = min(self.fixed, took)
        self.last = (took, records)


@dataclass
class Weights:
    """How many bytes a record of each topic has, by the last batch that has read some."""

    known: dict[str, float] = field(default_factory=dict)

    def note(self, read: Mapping[str, Sequence[int]]) -> None:
        """Records and bytes, by topic."""
        self.known |= {topic: size / max(records, 1) for topic, (records, size) in read.items()}

    def bound(self, topics: Iterable[str]) -> int:
        """Records that fit a batch, whichever of these topics they are of."""
        waiting = set(topics)
        if not waiting <= self.known.keys():
            return UNWEIGHED
        heaviest = max((self.known[topic] for topic in waiting), default=0.0)
        return max(int(MOST_BYTES / max(heaviest, 1.0)), 1)
