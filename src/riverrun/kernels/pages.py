"""Pages: key groups with their state. A visit takes a page's chunks through every step."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from riverrun.event_time import BEGINNING, END, PartitionTimes, Punctuation, clock
from riverrun.kernels.chunks import Chunk, pack, unpack_all
from riverrun.kernels.state import SegmentCache, SegmentList, Store, save
from riverrun.kernels.windows import advance
from riverrun.program import Program, Step

PUNCTUATION = "punctuation"
STATUS = "status"


@dataclass
class Head:
    """What a page remembers beside its segments."""

    clocks: dict[str, int] = field(default_factory=dict)
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    segments: dict[str, list[str]] = field(default_factory=dict)


def encode_punctuation(punctuation: Punctuation) -> bytes:
    return json.dumps(vars(punctuation)).encode()


def status_chunk(page: int, **facts: Any) -> Chunk:
    return Chunk(page, STATUS, 0, json.dumps(facts).encode())


class PageKernel:
    """Runs the steps of a program over one page at a time."""

    def __init__(self, program: Program, cache: SegmentCache, scope: str) -> None:
        self.program, self.cache, self.scope = program, cache, scope

    def visit(
        self, page: int, head_bytes: bytes | None, store: Store, chunks: list[Chunk]
    ) -> tuple[bytes | None, list[Chunk]]:
        """The page's new head (None if it is the same), and the chunks that leave."""
        head = Head(**json.loads(head_bytes)) if head_bytes else Head()
        by_edge: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            by_edge[chunk.edge].append(chunk)
        punctuation = _joined(by_edge.pop(PUNCTUATION, []))
        times = PartitionTimes({name: (high, at) for name, (high, at) in head.times.items()})
        times.note(punctuation)
        out: list[Chunk] = []
        late: dict[str, int] = {}
        watermarks: dict[str, Any] = {}
        for step in self.program.steps:
            before = head.clocks.get(step.name, BEGINNING)
            said = clock(times, punctuation, step.paces, before)
            after, watermarks[step.name] = said.time, {"held_by": said.held_by, "idle": said.idle}
            made = self._step(page, step, head, store, (by_edge.pop(step.input, []), before, after))
            late[step.name] = sum(count for _, count in made)
            out += [chunk for chunk, _ in made]
            head.clocks[step.name] = after
        times.forget(punctuation, self.program.paces)
        head.times = times.seen
        out += [chunk for rest in by_edge.values() for chunk in rest]
        facts = {"clocks": head.clocks, "open": self._waiting(head), "late": late}
        if page == 0:  # they are the same on all pages
            facts |= {"watermarks": watermarks, "tick": punctuation.tick}
        out.append(status_chunk(page, **facts))
        encoded = json.dumps(vars(head)).encode()
        return (None if encoded == head_bytes else encoded), out

    def _waiting(self, head: Head) -> bool:
        """Whether windows are open, so that time matters also when nothing arrives."""
        return any(step.size and head.segments.get(step.name) for step in self.program.steps)

    def _step(
        self,
        page: int,
        step: Step,
        head: Head,
        store: Store,
        batch: tuple[list[Chunk], int, int],
    ) -> list[tuple[Chunk, int]]:
        chunks, before, after = batch
        ids = head.segments.get(step.name, [])
        if not chunks and (after == before or not ids):
            return []
        scope = f"{self.scope}/{step.name}/{page}"
        segments = [self.cache.get(scope, each, store) for each in ids]
        state = SegmentList(step.keys, segments)
        parts = unpack_all(chunks) if chunks else None
        result = advance(step, state, parts, before, after)
        head.segments[step.name] = save(state, store, self.cache, scope)
        made = []
        if result.changes:
            rows = pl.concat([part for part in result.changes if part.height])
            made.append((Chunk(page, step.changes, 0, pack(rows)), 0))
        if result.late is not None:
            made.append((Chunk(page, step.late, 0, pack(result.late)), result.late.height))
        return made


def _joined(chunks: list[Chunk]) -> Punctuation:
    joined = Punctuation()
    for chunk in chunks:
        joined.add(Punctuation(**json.loads(chunk.data)))
    return joined


def is_end(clock_value: int) -> bool:
    return clock_value >= END
