"""Pages: key groups with their state. A visit takes a page's chunks through every step."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.clock import Punctuation
from riverrun.columns import POS
from riverrun.control import QUESTION
from riverrun.durations import BEGINNING, END
from riverrun.edges import ANSWER, DEAD, MARK, Edge
from riverrun.errors import CheckpointError
from riverrun.kernels.chunks import Chunk, pack, unpack_all
from riverrun.kernels.kept import Kept, Logged, NotKept, Outside
from riverrun.kernels.known import Known, KnownInMemory, KnownPlace, Moment
from riverrun.kernels.letters import Verdict, judge, letters_table, record_at
from riverrun.kernels.messages import ASIDE, Status
from riverrun.kernels.operator import Batch, Result, Standing, StepState
from riverrun.kernels.program import PlacedStep, Program
from riverrun.kernels.questions import Answering, Place, Point, TooSlow
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import Names, SegmentCache, SegmentList, Store, save
from riverrun.kernels.typed import columns_of
from riverrun.schema import Schema


@dataclass
class Head:
    """What a page remembers beside its segments. What is the same on all pages is not in it: it
    is written only when something was."""

    segments: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Ids by step and by name of the list."""
    open: dict[str, bool] = field(default_factory=dict)
    """Of every step, whether something is to come of its rows, so that time matters when nothing
    arrives."""
    ticks: dict[str, int] = field(default_factory=dict)
    """When steps were visited that have timers of processing time."""
    ends: dict[str, int] = field(default_factory=dict)
    """When the last row ends that steps keep for something that is to come."""
    sizes: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Rows and bytes of the segments, by step and by name of the list."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Rows of steps that go on later."""

    def rename(self, names: Mapping[str, str]) -> None:
        """Steps go on under new names; those that are known by them have done so before."""
        for old, new in names.items():
            if old in self.open and new not in self.open:
                for known in self._by_step:
                    if old in known:
                        known[new] = known[old]
                self.forget(old)

    def forget(self, step: str) -> None:
        for known in self._by_step:
            known.pop(step, None)

    @property
    def _by_step(self) -> tuple[dict[str, Any], ...]:
        return self.segments, self.open, self.ticks, self.ends, self.sizes, self.waiting

    def state(self) -> dict[str, list[int]]:
        """Rows and bytes that each step keeps."""
        return {
            step: [sum(counts) for counts in zip(*lists.values(), strict=True)]
            for step, lists in self.sizes.items()
            if lists
        }


class PageKernel:
    """Runs the steps of one level of a program over one page at a time."""

    def __init__(
        self,
        program: Program,
        level: int,
        cache: SegmentCache,
        scope: str,
        *,
        known: KnownPlace | None = None,
        kept: Kept | None = None,
        answering: Answering | None = None,
    ) -> None:
        self.program = program
        self.router = Router(program, shared_evaluator(program.functions))
        self.marked: tuple[list[bytes], Moment] | None = None
        """What the last batch said, and what is known with it: the same for many pages."""
        self.known = known or KnownInMemory()
        self.steps = [step for step in program.steps if step.level == level]
        self.last = level + 1 == program.levels
        self.cache, self.scope = cache, scope
        self.kept = kept or NotKept()
        self.answering = answering or Answering()
        self.followed = program.followed

    def visit(
        self, page: int, head_bytes: bytes | None, store: Store, chunks: list[Chunk]
    ) -> tuple[bytes | None, list[Chunk]]:
        """The page's new head (None if it is the same), and the chunks that leave."""
        head = Head(**json.loads(head_bytes)) if head_bytes else None
        visit = Visit(page, head or Head(), store, chunks)
        marks = visit.came.pop(MARK, [])
        moment = self._moment(head, sorted(chunk.data for chunk in marks))
        head, visit.names = visit.head, Names(moment.said.batch)
        self._forget(head, store)
        visit.out = [] if self.last else list(marks)
        visit.status.tick = moment.said.tick
        for step in self.steps:
            batch = self._batch(step, visit, moment)
            if batch is not None:
                result = self._advanced(step, visit, batch)
                if visit.page == 0:  # they are the same on all pages
                    visit.status.answers += [vars(each) for each in result.answers]
                visit.out += [Chunk(page, ANSWER, page, each) for each in result.replies]
                self._send(step, visit, result)
        self.known.keep(moment.said.batch, moment.after, page)
        if moment.questions:
            visit.out += self._answers(visit, moment)
        visit.out += [chunk for rest in visit.came.values() for chunk in rest]
        if page == 0:  # they are the same on all pages
            visit.status.clocks = dict(moment.after.clocks)
        visit.status.open, visit.status.state = any(head.open.values()), head.state()
        visit.status.waiting = head.waiting
        ends, closing = head.ends, moment.said.closing is not None
        visit.status.closes = {
            step.name: step.does.closes(ends[step.name])
            for step in self.steps
            if step.name in ends and (closing or (self.followed and step.does.holds))
        }
        visit.out.append(visit.status.chunk(page))
        encoded = json.dumps(vars(head)).encode()
        return (None if encoded == head_bytes else encoded), visit.out

    def _forget(self, head: Head, store: Store) -> None:
        """Steps that the program no longer has: one of the same name later must start empty."""
        head.rename({step.was: step.name for step in self.steps if step.was})
        ours = {step.name for step in self.steps}
        for name in head.open.keys() - ours:
            for ids in head.segments.get(name, {}).values():
                for each in ids:
                    store.remove(each)
            head.forget(name)

    def _moment(self, head: Head | None, marks: list[bytes]) -> Moment:
        if self.marked is None or self.marked[0] != marks:
            said = Punctuation.together(marks)
            moment = Moment(said, self._before(said.batch, head), self.steps, self.program.paces)
            self.marked = (marks, moment)
        return self.marked[1]

    def _before(self, batch: int, head: Head | None) -> Known:
        """What was known before the batch; nothing was, when there are no pages yet."""
        found = self.known.before(batch)
        if found is None and head is not None:
            raise CheckpointError(
                "what was known of time is not in the checkpoint",
                where=self.known,
                got=f"nothing of the batch before number {batch}",
                hint="restore a backup, or start over with `riverrun run … --fresh`",
            )
        return (found or Known()).renamed({step.was: step.name for step in self.steps if step.was})

    def _batch(self, step: PlacedStep, visit: Visit, moment: Moment) -> Batch | None:
        """Moves the step's clock; its batch, if there is something to do."""
        head, said_of_all = visit.head, moment.said
        tick = said_of_all.tick
        before = moment.before.clocks.get(step.name, BEGINNING)
        said = moment.clocks[step.name]
        head.open.setdefault(step.name, False)
        if visit.page == 0:  # they are the same on all pages
            visit.status.holders[step.name] = {"held_by": said.held_by, "idle": said.idle}
        known = moment.before.releases.get(step.name, BEGINNING)
        released = moment.releases.get(step.name, BEGINNING)
        inputs = tuple(map(visit.rows, step.input_edges))
        tick_before = head.ticks.get(step.name, BEGINNING)
        moved = said.time > before or released > known
        moved = moved or (step.does.wakes_with_tick and tick > tick_before)
        told = tuple(
            each
            for each in said_of_all.commands
            if each.target == step.name and each.kind != QUESTION
        )
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
            behind=tuple(moment.said.behind),
            partitions=moment.said.partitions,
            outside=Outside(self.kept, Logged(said_of_all.batch, tick), step.name, visit.page),
        )

    def _advanced(self, step: PlacedStep, visit: Visit, batch: Batch) -> Result:
        """Runs the step's kernel over its state in the page, and saves what changed."""
        scope, head = self._scope(step, visit), visit.head
        known = head.segments.get(step.name, {})
        self.cache.retain(scope, {each for ids in known.values() for each in ids})
        state = self._state(step, visit)
        result = step.does.advance(state, batch)
        saved = {
            name: save(rows, visit.store, self.cache, scope, visit.names)
            for name, rows in state.lists.items()
        }
        head.segments[step.name] = {n: ids for n, ids in (known | saved).items() if ids}
        head.sizes.setdefault(step.name, {}).update(
            (name, rows.size()) for name, rows in state.lists.items()
        )
        head.waiting[step.name] = state.waiting()
        last = state.last_time()
        waiting = last > step.does.done(batch.after)
        head.open[step.name] = waiting if result.waiting is None else result.waiting
        if head.open[step.name] and last < END:
            head.ends[step.name] = last
        else:
            head.ends.pop(step.name, None)
        return result

    def _scope(self, step: PlacedStep, visit: Visit) -> str:
        return f"{self.scope}/{step.name}/{visit.page}"

    def _state(self, step: PlacedStep, visit: Visit, until: float = inf) -> StepState:
        """What the step keeps in the page, as the head lists it."""
        scope, known = self._scope(step, visit), visit.head.segments.get(step.name, {})

        def load(name: str, rows: SegmentList) -> None:
            for each in known.get(name, []):
                if time.monotonic() > until:
                    raise TooSlow
                found = self.cache.get(scope, each, visit.store, step.does.fitted)
                rows.segments.append(found)

        return StepState(step.does.keys, load)

    def _answers(self, visit: Visit, moment: Moment) -> Iterator[Chunk]:
        """What the page answers, after the batch. Nothing that is kept changes."""
        said = moment.said
        self.answering.begin((self.scope, said.batch, said.tick))
        for step in self.steps:
            clock = moment.clocks[step.name].time
            ends = said.point["ends"] if visit.page == 0 else {}  # they are the same on all pages
            point = Point(said.point["batch"], said.tick, clock, ends)
            place = Place(visit.page, self.program.pages, point)
            asked = [each for each in moment.questions if each.step == step.name]
            if asked and step.does.standing is not None:
                rows = partial(self._table, (step, step.does.standing), visit, clock)
                for part in self.answering.parts(asked, place, rows):
                    yield Chunk(visit.page, ANSWER, visit.page, part.encoded())

    def _table(
        self, asked: tuple[PlacedStep, Standing], visit: Visit, clock: int, until: float
    ) -> tuple[pa.Table, Schema]:
        """The rows of the step's table in the page."""
        step, standing = asked
        schema = self.program.tables[step.name]
        found = standing(self._state(step, visit, until), clock)
        like = columns_of(schema).frame([])
        rows = like if found is None else found.select(like.columns).cast(like.schema)
        return rows.to_arrow(), schema

    def _send(self, step: PlacedStep, visit: Visit, result: Result) -> None:
        """What a step gave goes on in the page, or leaves it."""
        late = sum(rows.height for rows in result.late.values())
        visit.status.add(Status(late={step.name: late}))
        if late and self.followed:
            visit.status.add(Status(aside=self._late(step, result)))
        self._set_aside(visit, result.failed)
        if result.doubt is not None:
            visit.status.add(Status(doubts={step.name: result.doubt}))
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

    def _late(self, step: PlacedStep, result: Result) -> dict[str, str]:
        """Records whose rows were late, by name."""
        found = [at for rows in result.late.values() for at in rows[POS].head(ASIDE).to_list()]
        places = (record_at(pos, self.program.topics) for pos in found)
        return {f"{place} {step.name}": f"late at {step.name}" for place in places if place}

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
        self.names = Names(0)

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
