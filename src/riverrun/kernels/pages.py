"""Pages: key groups with their state. A visit takes a page's chunks through every step."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from riverrun.clock import Clock, Pace, PartitionTimes, Punctuation, clock, release
from riverrun.durations import BEGINNING
from riverrun.kernels import (
    deduplication,
    framing,
    hopping,
    lookups,
    marking,
    processing,
    ranking,
    sessions,
    sliding,
    stream_joins,
    table_joins,
    tables,
    versions,
    windows,
)
from riverrun.kernels.chunks import Chunk, pack, unpack, unpack_all, with_hash
from riverrun.kernels.isolation import evaluated
from riverrun.kernels.letters import Verdict, judge, letters_table
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import SegmentCache, SegmentList, Store, save
from riverrun.kernels.steps import Batch, Result, StepState
from riverrun.processor import FrameProcessor
from riverrun.program import (
    DEAD,
    Aggregating,
    Branch,
    Deduplicating,
    Joining,
    Marking,
    Processing,
    Program,
    Ranking,
    Settling,
    Step,
    Tabling,
)

PUNCTUATION = "punctuation"
STATUS = "status"

WINDOWS = {
    "session": sessions.advance,
    "sliding": sliding.advance,
    "hopping": hopping.advance,
}

JOINS = {
    "streams": stream_joins.advance,
    "latest": lookups.advance,
    "versions": versions.advance,
    "tables": table_joins.advance,
}

KERNELS: dict[type[Step], Callable[[Any, StepState, Batch], Result]] = {
    Deduplicating: deduplication.advance,
    Marking: marking.advance,
    Tabling: tables.advance,
    Ranking: ranking.advance,
    Settling: tables.settle,
}


@dataclass
class Head:
    """What a page remembers beside its segments."""

    clocks: dict[str, int] = field(default_factory=dict)
    times: str = "{}"
    """PartitionTimes in JSON: the same on all pages, so it is worked out once for many."""
    segments: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Ids by step and by name of the list."""
    open: dict[str, bool] = field(default_factory=dict)
    """Whether something is to come of a step's rows, so that time matters when nothing arrives."""
    ticks: dict[str, int] = field(default_factory=dict)
    """When steps were visited that have timers of processing time."""
    releases: dict[str, int] = field(default_factory=dict)
    """How far the tables of joins are known whose rows wait for them."""


def clocks_of(chunk: Chunk) -> dict[str, int] | None:
    """The clocks before the batch, if the chunk is a punctuation that tells them."""
    if chunk.edge != PUNCTUATION:
        return None
    return Punctuation.decoded(chunk.data).clocks


def status_chunk(page: int, **facts: Any) -> Chunk:
    return Chunk(page, STATUS, 0, json.dumps(facts).encode())


class Moment:
    """What a batch says of time, after what was known of it before."""

    def __init__(self, times: str, marks: list[bytes], paces: Mapping[str, Pace]) -> None:
        self.source = (times, marks)
        self.punctuation = Punctuation()
        for mark in marks:
            self.punctuation.add(Punctuation.decoded(mark))
        self.seen = PartitionTimes.decoded(times)
        self.seen.note(self.punctuation)
        self.paces = paces
        self.clocks: dict[tuple[str, int], Clock] = {}

    def clock(self, step: Step, before: int) -> Clock:
        if (step.name, before) not in self.clocks:
            found = clock(self.seen, self.punctuation, step.paces, before)
            self.clocks[step.name, before] = found
        return self.clocks[step.name, before]

    def release(self, step: Step, before: int) -> int:
        """How far the table is known that rows of a join wait for."""
        if not isinstance(step, Joining) or step.kind != "versions":
            return BEGINNING
        return release(self.seen, self.punctuation, (step.paces, step.right_paces), before)

    @cached_property
    def times(self) -> str:
        """What is to be known after the batch."""
        kept = PartitionTimes(dict(self.seen.seen))
        kept.forget(self.punctuation, self.paces)
        return kept.encoded()


def advance(step: Step, state: StepState, batch: Batch) -> Result:
    """Runs the kernel that the step asks for."""
    match step:
        case Aggregating():
            return WINDOWS.get(step.window.kind, windows.advance)(step, state, batch)
        case Joining():
            return JOINS[step.kind](step, state, batch)
        case Processing():
            framed = isinstance(step.processor, FrameProcessor)
            kernel = framing.advance if framed else processing.advance
            return kernel(step, state, batch)
        case _:
            return KERNELS[type(step)](step, state, batch)


class PageKernel:
    """Runs the steps of one level of a program over one page at a time."""

    def __init__(self, program: Program, level: int, cache: SegmentCache, scope: str) -> None:
        self.program, self.paces, self.topics = program, program.paces, program.topics
        self.local: dict[str, list[Branch]] = defaultdict(list)
        for branch in program.branches:
            if program.stays(branch):
                self.local[branch.origin].append(branch)
        self.moment: Moment | None = None
        self.steps = [step for step in program.steps if step.level == level]
        self.last = level + 1 == program.levels
        self.cache, self.scope = cache, scope

    def visit(
        self, page: int, head_bytes: bytes | None, store: Store, chunks: list[Chunk]
    ) -> tuple[bytes | None, list[Chunk]]:
        """The page's new head (None if it is the same), and the chunks that leave."""
        head = Head(**json.loads(head_bytes)) if head_bytes else Head()
        self._forget(head, store)
        by_edge: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            by_edge[chunk.edge].append(chunk)
        marks = by_edge.pop(PUNCTUATION, [])
        moment = self._moment(head.times, sorted(chunk.data for chunk in marks))
        tick = moment.punctuation.tick
        out: list[Chunk] = [] if self.last else list(marks)
        late: dict[str, int] = {}
        failed: list[Verdict] = []
        holders: dict[str, Any] = {}
        for step in self.steps:
            said, batch = _batch(step, head, moment, by_edge)
            holders[step.name] = {"held_by": said.held_by, "idle": said.idle}
            if batch is None:
                continue
            result = self._step(page, step, head, store, batch)
            late[step.name] = sum(part.height for part in result.late_parts)
            failed.append(result.failed)
            made = _chunks(page, step, result, self.topics)
            out += made
            for chunk in self._staying(made):
                if self.program.step_at(chunk.edge):
                    by_edge[chunk.edge].append(chunk)
                else:
                    out.append(chunk)
        head.times = moment.times
        out += [chunk for rest in by_edge.values() for chunk in rest]
        facts = {"clocks": head.clocks, "open": any(head.open.values()), "late": late, "tick": tick}
        if page == 0:  # they are the same on all pages
            facts["holders"] = holders
        out.append(status_chunk(page, **facts))
        out += [status_chunk(page, **each.counts) for each in failed if each.causes]
        encoded = json.dumps(vars(head)).encode()
        return (None if encoded == head_bytes else encoded), out

    def _staying(self, made: list[Chunk]) -> Iterator[Chunk]:
        """Rows for steps that follow in the same page, and what is to be told of them."""
        for chunk in made:
            for branch in self.local.get(chunk.edge, ()):
                step, rows = self.program.step_at(branch.target), unpack(chunk.data).to_arrow()
                assert step is not None
                assert branch.query is not None
                kept, failures = evaluated(shared_evaluator(), branch, branch.query, rows)
                frame = with_hash(pl.DataFrame(pl.from_arrow(kept)), step.keys)
                verdict = judge(failures, self.topics)
                yield Chunk(chunk.page, branch.target, chunk.seq, pack(frame))
                yield status_chunk(chunk.page, rows={step.name: frame.height}, **verdict.counts)
                if verdict.aside:
                    yield Chunk(chunk.page, DEAD, chunk.page, pack(_letters(verdict, self.topics)))

    def _forget(self, head: Head, store: Store) -> None:
        """Steps that the program no longer has: one of the same name later must start empty."""
        ours = {step.name for step in self.steps}
        for name in head.clocks.keys() - ours:
            for ids in head.segments.pop(name, {}).values():
                for each in ids:
                    store.remove(each)
            for known in (head.clocks, head.open, head.ticks, head.releases):
                known.pop(name, None)

    def _moment(self, times: str, marks: list[bytes]) -> Moment:
        if self.moment is None or self.moment.source != (times, marks):
            self.moment = Moment(times, marks, self.paces)
        return self.moment

    def _step(self, page: int, step: Step, head: Head, store: Store, batch: Batch) -> Result:
        scope = f"{self.scope}/{step.name}/{page}"
        known = head.segments.get(step.name, {})
        self.cache.retain(scope, {each for ids in known.values() for each in ids})

        def load(name: str, rows: SegmentList) -> None:
            ids = known.get(name, [])
            rows.segments = [self.cache.get(scope, each, store) for each in ids]

        state = StepState(step.keys, load)
        result = advance(step, state, batch)
        saved = {name: save(rows, store, self.cache, scope) for name, rows in state.lists.items()}
        head.segments[step.name] = {n: ids for n, ids in (known | saved).items() if ids}
        waiting = state.last_time() > step.done(batch.after)
        head.open[step.name] = waiting if result.waiting is None else result.waiting
        return result


def _batch(
    step: Step, head: Head, moment: Moment, by_edge: dict[str, list[Chunk]]
) -> tuple[Clock, Batch | None]:
    """Moves the step's clock; its batch, if there is something to do."""
    tick, before = moment.punctuation.tick, head.clocks.get(step.name, BEGINNING)
    said = moment.clock(step, before)
    head.clocks[step.name] = said.time
    known = head.releases.get(step.name, BEGINNING)
    release = moment.release(step, known)
    if release > BEGINNING:
        head.releases[step.name] = release
    left, right = by_edge.pop(step.input, []), by_edge.pop(step.right or "", [])
    tick_before = head.ticks.get(step.name, BEGINNING)
    moved = said.time > before or release > known
    moved = moved or (isinstance(step, Processing) and tick > tick_before)
    if not (left or right or (moved and head.segments.get(step.name))):
        return said, None
    if isinstance(step, Processing):
        head.ticks[step.name] = tick
    return said, Batch(
        unpack_all(left) if left else None,
        before,
        said.time,
        tick=tick,
        tick_before=tick_before,
        right=unpack_all(right) if right else None,
        release_before=known,
        release=release,
    )


def _chunks(page: int, step: Step, result: Result, topics: tuple[str, ...]) -> list[Chunk]:
    """What a step gave, as chunks of the edges that it feeds."""
    frames = {step.changes: result.changes}
    frames |= {step.stream(name): rows for name, rows in result.streams.items()}
    frames[step.late] = [] if result.late is None else [result.late]
    if isinstance(step, Joining):
        frames[step.late_right] = [] if result.late_right is None else [result.late_right]
    if result.failed.aside:
        frames[DEAD] = [_letters(result.failed, topics)]
    made = []
    for edge, parts in frames.items():
        rows = [part for part in parts if part.height]
        if rows:
            made.append(Chunk(page, edge, page, pack(pl.concat(rows))))
    return made


def _letters(verdict: Verdict, topics: tuple[str, ...]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(letters_table(verdict, topics)))
