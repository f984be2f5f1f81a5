"""Batches: how far each is to read. It is logged before it runs: a batch run again is the same.

An offset holds per partition where reading stands, the tick (wall-clock time, so that idleness
replays the same), the clocks that tell what may be late, and the identity of each topic. Spark logs
it as a plain dictionary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from riverrun.clock import Punctuation
from riverrun.durations import BEGINNING
from riverrun.kernels.program import Program
from riverrun.partitions import Partition, Range, as_texts, counts, from_texts, partition_of
from riverrun.sources.admission import Ends

PIECE = 1 << 16
"""Ranges are dealt to tasks in pieces that end at multiples of this offset."""

PLACES = ("ends", "begins", "targets", "highs", "came")
"""What an offset tells of each partition."""

LISTS = ("behind", "over")
"""Where an offset lists partitions."""


@dataclass
class Offset:
    ends: Ends
    tick: int = 0
    clocks: dict[str, int] | None = None
    topics: dict[str, str] = field(default_factory=dict)
    behind: list[Partition] = field(default_factory=list)
    batch: int = 0
    ended: bool = False
    parallel: int = 1
    """How many tasks the batch is dealt to."""
    begins: Ends = field(default_factory=dict)
    """Where partitions begin that do not go on from the offset before: new, or with losses."""
    control: int = 0
    """How far the control log has taken effect."""
    paused: list[str] = field(default_factory=list)
    """Topics that are not read until they are resumed."""
    targets: Ends = field(default_factory=dict)
    """How far tables are to be read before what waits for them."""
    highs: Ends = field(default_factory=dict)
    """The highest event times that were known when the batch was planned."""
    closing: dict[str, int] | None = None
    """How far the clocks of steps go at least, where all is read and to be closed."""

    histories: dict[str, str] = field(default_factory=dict)
    """Topics that are read once: the version of what is made of them."""

    over: list[Partition] = field(default_factory=list)
    """Partitions of which nothing more will be read, whatever comes."""
    came: Ends = field(default_factory=dict)
    """When the last records came of partitions that are read to their end with the batch, by the
    tick, where that was before the batch."""

    def logged(self) -> dict[str, Any]:
        places = {name: as_texts(getattr(self, name)) for name in PLACES}
        lists = {name: [str(each) for each in getattr(self, name)] for name in LISTS}
        return {**vars(self), **places, **lists}

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> Offset:
        # what was logged before there was one of them has none
        places = {name: from_texts(logged.get(name, {})) for name in PLACES}
        lists = {name: [partition_of(text) for text in logged.get(name, ())] for name in LISTS}
        return cls(**{**logged, **places, **lists})

    def punctuation(self) -> Punctuation:
        return Punctuation(
            tick=self.tick, ended=self.ended, behind=self.behind, clocks=self.clocks,
            control=self.control, paused=self.paused, batch=self.batch,
            partitions=counts(self.ends), closing=self.closing, over=self.over,
            came=dict(self.came.items()),
        )  # fmt: skip


class Planner(ABC):
    """Decides what the next batch reads."""

    @abstractmethod
    def first(self) -> Offset:
        """Where a new application begins."""

    @abstractmethod
    def next(self, start: Offset) -> Offset:
        """The offset that the next batch ends at; the start itself when there is nothing to do."""

    @abstractmethod
    def stop_at_end(self) -> None:
        """From here on, read only what there is now."""


def first_clocks(program: Program) -> dict[str, int]:
    """Nothing was read: nothing can be late."""
    return {step.name: BEGINNING for step in program.steps}


def tasks(start: Offset, end: Offset) -> list[list[Range]]:
    """Ranges to read, cut in pieces and dealt to the tasks of the batch in whole runs."""
    parallel = end.parallel
    pieces = [
        piece
        for each in sorted(end.ends)
        for piece in _pieces(each, end.begins.get(each, start.ends.get(each, 0)), end.ends[each])
    ]
    total = sum(piece.end - piece.start for piece in pieces)
    dealt: list[list[Range]] = [[] for _ in range(parallel)]
    done = 0
    for piece in pieces:
        mine = dealt[min(parallel - 1, done * parallel // total)]
        done += piece.end - piece.start
        if mine and (mine[-1].partition, mine[-1].end) == (piece.partition, piece.start):
            mine[-1] = mine[-1]._replace(end=piece.end)
        else:
            mine.append(piece)
    return [each for each in dealt if each] or [[]]


def within(ranges: Iterable[Range], only: Iterable[Range]) -> list[Range]:
    """What the ranges have in common with others."""
    both = (
        Range(each.partition, max(each.start, other.start), min(each.end, other.end))
        for each in ranges
        for other in only
        if each.partition == other.partition
    )
    return [each for each in both if each.start < each.end]


def _pieces(partition: Partition, start: int, end: int) -> list[Range]:
    cuts = [start, *range(start - start % PIECE + PIECE, end, PIECE), end] if start < end else []
    return [Range(partition, a, b) for a, b in pairwise(cuts)]
