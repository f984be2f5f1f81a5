"""What the parts of a running program tell each other beside rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from riverrun.clock import Punctuation
from riverrun.edges import MARK, STATUS
from riverrun.kernels.chunks import Chunk

ASIDE = 1000
"""Records of a batch that are told by name when they were late or set aside."""


@dataclass
class Status:
    """What a batch tells of itself: the clocks after it, whether something is to come, and counts.

    Readers, pages and writers each tell a part; the driver adds them up.
    """

    clocks: dict[str, int] = field(default_factory=dict)
    open: bool = False
    """Whether time matters also when nothing arrives."""
    closes: dict[str, int] = field(default_factory=dict)
    """The clock at which all that a step keeps will have given what it gives, where that is asked
    for."""
    events: int = 0
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """Records that the batch has read of each topic, and their bytes."""
    dead: int = 0
    dropped: int = 0
    """Rows that failed, and that the program does not want to see again."""
    causes: dict[str, int] = field(default_factory=dict)
    """How often rows failed, by step and cause."""
    doubts: dict[str, str] = field(default_factory=dict)
    """Of each step that counts what looks wrong among `causes`: an instance, of this batch."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that entered each step."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows of each step that were late."""
    written: dict[str, int] = field(default_factory=dict)
    tick: int = 0
    control: int = 0
    """How far the control log has taken effect."""
    paused: list[str] = field(default_factory=list)
    highs: dict[str, int] = field(default_factory=dict)
    """The highest event time read of each partition."""
    given: dict[str, list[str]] = field(default_factory=dict)
    """Of each topic the columns that some record of the first batch has, and the names in them."""
    fields: dict[str, list[str]] = field(default_factory=dict)
    holders: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Who holds the clock of each step back (`held_by`), and who is `idle`."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """What steps reply to commands of the control log."""
    ends: dict[str, int] = field(default_factory=dict)
    """How far each partition was read, where anything was, and after the first batch everywhere:
    the next offset."""
    aside: dict[str, str] = field(default_factory=dict)
    """Why records gave nothing, by `topic/partition/offset STEP`, where readers ask for them: the
    first thousand."""
    state: dict[str, list[int]] = field(default_factory=dict)
    """Rows and bytes that each step keeps."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Rows of each step that go on later."""

    def add(self, other: Status) -> None:
        self.clocks.update(other.clocks)
        self.holders.update(other.holders)
        self.open = self.open or other.open
        for name, at in other.closes.items():
            self.closes[name] = max(at, self.closes.get(name, at))
        self.tick = max(self.tick, other.tick)
        self.control = max(self.control, other.control)
        self.paused = sorted({*self.paused, *other.paused})
        self.answers = self.answers + other.answers
        self.doubts = {**other.doubts, **self.doubts}
        for most, theirs in ((self.highs, other.highs), (self.ends, other.ends)):
            for name, high in theirs.items():
                most[name] = max(high, most.get(name, high))
        room = max(ASIDE - len(self.aside), 0)
        self.aside |= dict(islice(other.aside.items(), room))
        for known, told in ((self.given, other.given), (self.fields, other.fields)):
            for name, names in told.items():
                known[name] = sorted({*known.get(name, []), *names})
        for pairs, more in ((self.state, other.state), (self.sizes, other.sizes)):
            for name, pair in more.items():
                before = pairs.get(name, [0, 0])
                pairs[name] = [sum(each) for each in zip(pair, before, strict=True)]
        self.events += other.events
        self.dead += other.dead
        self.dropped += other.dropped
        for mine, counted in (
            (self.rows, other.rows),
            (self.late, other.late),
            (self.written, other.written),
            (self.causes, other.causes),
            (self.waiting, other.waiting),
        ):
            for name, count in counted.items():
                mine[name] = mine.get(name, 0) + count

    def chunk(self, page: int = 0) -> Chunk:
        told = {name: fact for name, fact in vars(self).items() if fact}
        return Chunk(page, STATUS, 0, json.dumps(told).encode())


@dataclass(frozen=True)
class Times:
    """How long a batch took, in seconds."""

    batch: int
    began_at: float
    """By the wall clock."""
    whole: float
    parts: Mapping[str, float]
    """In their order; what the whole has beyond them lies between them."""


def status_of(chunk: Chunk) -> Status:
    return Status(**json.loads(chunk.data))


def marks(punctuation: Punctuation, pages: int) -> list[Chunk]:
    """What a batch says of time, for every page."""
    data = punctuation.encoded()
    return [Chunk(page, MARK, 0, data) for page in range(pages)]
