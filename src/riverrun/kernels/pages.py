"""Pages: key groups with their state. A visit takes a page's chunks through every step."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from riverrun.clock import Clock, Pace, PartitionTimes, Punctuation, clock, release
from riverrun.durations import BEGINNING, END
from riverrun.edges import DEAD, MARK, Edge
from riverrun.kernels.chunks import Chunk, pack, unpack_all
from riverrun.kernels.kept import Kept, Logged, NotKept, Outside
from riverrun.kernels.letters import Verdict, judge, letters_table
from riverrun.kernels.messages import Status
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.kernels.program import PlacedStep, Program
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import SegmentCache, SegmentList, Store, save


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
    ends: dict[str, int] = field(default_factory=dict)
    """When the last row ends that steps keep for something that is to come."""


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

    def clock(self, step: PlacedStep, before: int) -> Clock:
        if (step.name, before) not in self.clocks:
            found = clock(self.seen, self.punctuation, step.paces, before)
            at_least = (self.punctuation.closing or {}).get(step.name, BEGINNING)
            self.clocks[step.name, before] = found._replace(time=max(found.time, at_least))
        return self.clocks[step.name, before]

    def release(self, step: PlacedStep, before: int) -> int:
        """How far the input is known that rows of the others wait for."""
        if not any(way.awaited for way in step.does.inputs):
            return BEGINNING
        return release(self.seen, self.punctuation, (step.paces, step.awaited), before)

    @cached_property
    def times(self) -> str:
        """What is to be known after the batch."""
        kept = PartitionTimes(dict(self.seen.seen))
        kept.forget(self.punctuation, self.paces)
        return kept.encoded()


class PageKernel:
    """Runs the steps of one level of a program over one page at a time."""

    def __init__(
        self,
        program: Program,
        level: int,
        cache: SegmentCache,
        scope: str,
        *,
        kept: Kept | None = None,
    ) -> None:
        self.program, self.paces = program, program.paces
        self.router = Router(program, shared_evaluator(program.functions))
        self.moment: Moment | None = None
        self.steps = [step for step in program.steps if step.level == level]
        self.last = level + 1 == program.levels
        self.cache, self.scope = cache, scope
        self.kept = kept or NotKept()

    def visit(
        self, page: int, head_bytes: bytes | None, store: Store, chunks: list[Chunk]
    ) -> tuple[bytes | None, list[Chunk]]:
        """The page's new head (None if it is the same), and the chunks that leave."""
        head = Head(**json.loads(head_bytes)) if head_bytes else Head()
        self._forget(head, store)
        visit = Visit(page, head, store, chunks)
        marks = visit.came.pop(MARK, [])
        moment = self._moment(head.times, sorted(chunk.data for chunk in marks))
        visit.out = [] if self.last else list(marks)
        visit.status.tick = moment.punctuation.tick
        for step in self.steps:
            batch = self._batch(step, visit, moment)
            if batch is not None:
                result = self._advanced(step, visit, batch)
                if visit.page == 0:  # they are the same on all pages
                    visit.status.answers += [vars(each) for each in result.answers]
                self._send(step, visit, result)
        head.times = moment.times
        visit.out += [chunk for rest in visit.came.values() for chunk in rest]
        visit.status.clocks, visit.status.open = head.clocks, any(head.open.values())
        if moment.punctuation.closing is not None:
            ends = head.ends
            visit.status.closes = {
                step.name: step.does.closes(ends[step.name])
                for step in self.steps
                if step.name in ends
            }
        visit.out.append(visit.status.chunk(page))
        encoded = json.dumps(vars(head)).encode()
        return (None if encoded == head_bytes else encoded), visit.out

    def _forget(self, head: Head, store: Store) -> None:
        """Steps that the program no longer has: one of the same name later must start empty."""
        ours = {step.name for step in self.steps}
        for name in head.clocks.keys() - ours:
            for ids in head.segments.pop(name, {}).values():
                for each in ids:
                    store.remove(each)
            for known in (head.clocks, head.open, head.ticks, head.releases, head.ends):
                known.pop(name, None)

    def _moment(self, times: str, marks: list[bytes]) -> Moment:
        if self.moment is None or self.moment.source != (times, marks):
            self.moment = Moment(times, marks, self.paces)
        return self.moment

    def _batch(self, step: PlacedStep, visit: Visit, moment: Moment) -> Batch | None:
        """Moves the step's clock; its batch, if there is something to do."""
        head, said_of_all = visit.head, moment.punctuation
        tick = said_of_all.tick
        before = head.clocks.get(step.name, BEGINNING)
        said = moment.clock(step, before)
        head.clocks[step.name] = said.time
        if visit.page == 0:  # they are the same on all pages
            visit.status.holders[step.name] = {"held_by": said.held_by, "idle": said.idle}
        known = head.releases.get(step.name, BEGINNING)
        released = moment.release(step, known)
        if released > BEGINNING:
            head.releases[step.name] = released
        inputs = tuple(map(visit.rows, step.input_edges))
        tick_before = head.ticks.get(step.name, BEGINNING)
        moved = said.time > before or released > known
        moved = moved or (step.does.wakes_with_tick and tick > tick_before)
        told = tuple(each for each in said_of_all.commands if each.target == step.name)
        idle = all(rows is None for rows in inputs) and not told
        if idle and not (moved and head.segments.get(step.name)):
            return None
        if step.does.wakes_with_tick:
            head.ticks[step.name] = tick
        return Batch(
            inputs,
            before,
            said.time,
            tick=tick,
            tick_before=tick_before,
            release_before=known,
            release=released,
            topics=self.program.topics,
            pages=self.program.pages,
            commands=told,
            functions=self.program.functions,
            behind=tuple(moment.punctuation.behind),
            partitions=moment.punctuation.partitions,
            outside=Outside(self.kept, Logged(said_of_all.batch, tick), step.name, visit.page),
        )

    def _advanced(self, step: PlacedStep, visit: Visit, batch: Batch) -> Result:
        """Runs the step's kernel over its state in the page, and saves what changed."""
        scope, head = f"{self.scope}/{step.name}/{visit.page}", visit.head
        known = head.segments.get(step.name, {})
        self.cache.retain(scope, {each for ids in known.values() for each in ids})

        def load(name: str, rows: SegmentList) -> None:
            ids = known.get(name, [])
            rows.segments = [self.cache.get(scope, each, visit.store) for each in ids]

        state = StepState(step.does.keys, load)
        result = step.does.advance(state, batch)
        saved = {
            name: save(rows, visit.store, self.cache, scope) for name, rows in state.lists.items()
        }
        head.segments[step.name] = {n: ids for n, ids in (known | saved).items() if ids}
        last = state.last_time()
        waiting = last > step.does.done(batch.after)
        head.open[step.name] = waiting if result.waiting is None else result.waiting
        if head.open[step.name] and last < END:
            head.ends[step.name] = last
        else:
            head.ends.pop(step.name, None)
        return result

    def _send(self, step: PlacedStep, visit: Visit, result: Result) -> None:
        """What a step gave goes on in the page, or leaves it."""
        late = sum(rows.height for rows in result.late.values())
        visit.status.add(Status(late={step.name: late}))
        self._set_aside(visit, result.failed)
        for edge, rows in _frames(step, result).items():
            if self.program.leaving(edge):
                visit.out.append(Chunk(visit.page, edge, visit.page, pack(rows)))
            if staying := self.program.staying(edge):
                routed = self.router.along(staying, rows.to_arrow())
                for target, made in routed.made:
                    if made.num_rows:
                        visit.stayed[target].append(self.router.frame(target, made))
                visit.status.add(Status(rows=routed.rows))
                self._set_aside(visit, judge(routed.failures, self.program.topics))

    def _set_aside(self, visit: Visit, verdict: Verdict) -> None:
        visit.status.add(Status(**verdict.counts))
        if verdict.aside:
            letters = pl.DataFrame(pl.from_arrow(letters_table(verdict, self.program.topics)))
            visit.out.append(Chunk(visit.page, DEAD, visit.page, pack(letters)))


class Visit:
    """One page in one batch."""

    def __init__(self, page: int, head: Head, store: Store, chunks: list[Chunk]) -> None:
        self.page, self.head, self.store = page, head, store
        self.came: dict[Edge, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            self.came[chunk.edge].append(chunk)
        self.stayed: dict[Edge, list[pl.DataFrame]] = defaultdict(list)
        """Rows for steps of this level that another one of them gave."""
        self.out: list[Chunk] = []
        self.status = Status()

    def rows(self, edge: Edge) -> pl.DataFrame | None:
        """All rows of a step's input, once."""
        chunks, frames = self.came.pop(edge, []), self.stayed.pop(edge, [])
        if chunks:
            frames.insert(0, unpack_all(chunks))
        if len(frames) > 1:
            return pl.concat(frames, how="diagonal")
        return frames[0] if frames else None


def _frames(step: PlacedStep, result: Result) -> dict[Edge, pl.DataFrame]:
    """What a step gave, by the edge that it leaves by."""
    found = {step.does.output_edge(name): rows for name, rows in result.streams.items()}
    if result.changes:
        found[step.does.output_edge()] = result.changes
    for number, way in enumerate(step.does.inputs):
        if way.port in result.late:
            found[step.does.late_edge(number)] = [result.late[way.port]]
    filled = {edge: [rows for rows in parts if rows.height] for edge, parts in found.items()}
    return {edge: pl.concat(parts) for edge, parts in filled.items() if parts}
