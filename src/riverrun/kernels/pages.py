"""Pages: key groups with their state. A visit takes a page's chunks through every step."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any

import polars as pl
import pyarrow as pa

from riverrun.clock import Clock, Pace, PartitionTimes, Punctuation, clock, release
from riverrun.columns import POS
from riverrun.control import QUESTION
from riverrun.durations import BEGINNING, END
from riverrun.edges import ANSWER, DEAD, MARK, Edge
from riverrun.kernels.chunks import Chunk, pack, unpack_all
from riverrun.kernels.kept import Kept, Logged, NotKept, Outside
from riverrun.kernels.letters import Verdict, judge, letters_table, record_at
from riverrun.kernels.messages import ASIDE, Status
from riverrun.kernels.operator import Batch, Result, Standing, StepState
from riverrun.kernels.program import PlacedStep, Program
from riverrun.kernels.questions import Answering, Place, Point, Question, TooSlow, question_of
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import SegmentCache, SegmentList, Store, save
from riverrun.kernels.typed import columns_of
from riverrun.schema import Schema


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
    sizes: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Rows and bytes of the segments, by step and by name of the list."""

    def rename(self, names: Mapping[str, str]) -> None:
        """Steps go on under new names; those that are known by them have done so before."""
        for old, new in names.items():
            if old in self.clocks and new not in self.clocks:
                for known in self._by_step:
                    if old in known:
                        known[new] = known[old]
                self.forget(old)

    def forget(self, step: str) -> None:
        for known in self._by_step:
            known.pop(step, None)

    @property
    def _by_step(self) -> tuple[dict[str, Any], ...]:
        return (
            self.clocks, self.segments, self.open, self.ticks, self.releases, self.ends, self.sizes
        )  # fmt: skip

    def state(self) -> dict[str, list[int]]:
        """Rows and bytes that each step keeps."""
        return {
            step: [sum(counts) for counts in zip(*lists.values(), strict=True)]
            for step, lists in self.sizes.items()
            if lists
        }


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
    def questions(self) -> list[Question]:
        found = map(question_of, self.punctuation.commands)
        return [each for each in found if each is not None]

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
        answering: Answering | None = None,
    ) -> None:
        self.program, self.paces = program, program.paces
        self.router = Router(program, shared_evaluator(program.functions))
        self.moment: Moment | None = None
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
                visit.out += [Chunk(page, ANSWER, page, each) for each in result.replies]
                self._send(step, visit, result)
        head.times = moment.times
        if moment.questions:
            visit.out += self._answers(visit, moment)
        visit.out += [chunk for rest in visit.came.values() for chunk in rest]
        visit.status.clocks, visit.status.open = head.clocks, any(head.open.values())
        visit.status.state = head.state()
        ends, closing = head.ends, moment.punctuation.closing is not None
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
        for name in head.clocks.keys() - ours:
            for ids in head.segments.get(name, {}).values():
                for each in ids:
                    store.remove(each)
            head.forget(name)

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
            behind=tuple(moment.punctuation.behind),
            partitions=moment.punctuation.partitions,
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
            name: save(rows, visit.store, self.cache, scope) for name, rows in state.lists.items()
        }
        head.segments[step.name] = {n: ids for n, ids in (known | saved).items() if ids}
        head.sizes.setdefault(step.name, {}).update(
            (name, rows.size()) for name, rows in state.lists.items()
        )
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
        said = moment.punctuation
        self.answering.begin((self.scope, said.batch, said.tick))
        for step in self.steps:
            clock = visit.head.clocks.get(step.name, BEGINNING)
            ends = said.point["ends"] if visit.page == 0 else {}  # they are the same on all pages
            point = Point(said.point["batch"], said.tick, clock, ends)
            place = Place(visit.page, self.program.pages, point)
            asked = [each for each in moment.questions if each.step == step.name]
            if asked and step.does.standing is not None:
                rows = partial(self._table, step, visit, step.does.standing)
                for part in self.answering.parts(asked, place, rows):
                    yield Chunk(visit.page, ANSWER, visit.page, part.encoded())

    def _table(
        self, step: PlacedStep, visit: Visit, standing: Standing, until: float
    ) -> tuple[pa.Table, Schema]:
        """The rows of the step's table in the page."""
        schema = self.program.tables[step.name]
        clock = visit.head.clocks.get(step.name, BEGINNING)
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
