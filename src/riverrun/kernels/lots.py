"""Lots: what is read from a partition at once, decoded and evaluated in whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.clock import Now
from riverrun.durations import END
from riverrun.kernels import positions
from riverrun.kernels.aggregates import prepared
from riverrun.kernels.arrivals import arrival, at_tick
from riverrun.kernels.chunks import Chunk, by_page, pack, unpack_all, with_hash
from riverrun.kernels.isolation import evaluated, isolated
from riverrun.kernels.letters import (
    AHEAD,
    DECODE,
    LAST,
    LETTER,
    NO_TIME,
    Failure,
    Place,
    Verdict,
    judge,
    letters_table,
    text_or_base64,
)
from riverrun.kernels.pages import clocks_of, status_chunk
from riverrun.kernels.sql import Evaluator
from riverrun.partitions import Partition, Producer, TimeKeeper
from riverrun.program import (
    DEAD,
    ROWS,
    Aggregating,
    Branch,
    Joining,
    OnError,
    Program,
    SourceSpec,
)


@dataclass(frozen=True)
class Lot:
    """Raw records of a topic, by partition and offset.

    Columns: __value, __key, __timestamp (ms), __partition, __offset, perhaps __headers.
    """

    topic: str
    records: pa.Table


@dataclass
class Reading:
    """What came of a lot."""

    chunks: list[Chunk]
    highs: dict[TimeKeeper, int]
    """The highest event time of each partition or producer."""
    failed: Verdict = field(default_factory=Verdict)
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows go into each step."""

    @property
    def counts(self) -> dict[str, Any]:
        return {"rows": self.rows, **self.failed.counts}


class LotReader:
    """Turns records into chunks for the first exchange, or for the outputs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.evaluator = Evaluator()
        self.arrivals = {source.topic: arrival(source) for source in program.sources}

    def read(self, lot: Lot, now: Now) -> Reading:
        source = self.program.source(lot.topic)
        decoded = self._decode(source, lot, now)
        good, dead = _split(decoded, source.on_error)
        marks, good, failed = self._marks(source, good)
        reading = Reading([], _highest(source, good, marks))
        good = good.drop_columns(["__producer"]) if source.producer else good
        dead += failed
        seq = int(decoded["__pos"][0].as_py())
        for branch in self.program.branches_of(source.edge):
            made, failed = self._evaluate(branch, good, now.clocks)
            rows, count = counted(made)
            if step := self.program.step_at(branch.target):
                reading.rows[step.name] = reading.rows.get(step.name, 0) + count
            dead += failed
            reading.chunks += self.packed(branch.target, rows, seq)
        reading.failed = judge(dead, self.program.topics)
        if reading.failed.aside:
            letters = _dead_letters(lot, source, reading.failed.aside)
            reading.chunks += self.packed(DEAD, letters, seq)
        return reading

    def _decode(self, source: SourceSpec, lot: Lot, now: Now) -> pa.Table:
        partition, offset = (
            pc.max(lot.records[each]).as_py() for each in ("__partition", "__offset")
        )
        positions.pack(source.index, partition, offset)  # an error if one is too large
        query = at_tick(self.arrivals[source.topic], source, now)
        given = source.format.prepared(lot.records, source.schema, source.table_key)
        return self.evaluator.run(query, lot=given)

    def _marks(
        self, source: SourceSpec, rows: pa.Table
    ) -> tuple[pa.Table, pa.Table, list[Failure]]:
        """Records that only tell the time, and those that are rows."""
        if source.punctuation is None:
            return rows.slice(0, 0), rows, []
        query = f"SELECT *, coalesce(({source.punctuation}), false) AS __mark FROM rows"
        at = (source.at, source.on_error)
        made, failed = isolated(self.evaluator, query, rows, at)
        mark = made["__mark"]
        made = made.drop_columns(["__mark"])
        return made.filter(mark), made.filter(pc.invert(mark)), failed

    def _evaluate(
        self, branch: Branch, rows: pa.Table, clocks: dict[str, int] | None
    ) -> tuple[pa.Table, list[Failure]]:
        if branch.query is None:
            return rows, []
        query = self._query(branch, rows, clocks)
        made, failed = evaluated(self.evaluator, branch, query, rows)
        if "__row" in made.column_names and made["__row"].null_count == made.num_rows:
            made = made.drop_columns(["__row"])
        return made, failed

    def _query(self, branch: Branch, rows: pa.Table, clocks: dict[str, int] | None) -> str:
        """Rows are combined if none can be late: a window ends after each of its events."""
        step = self.program.step_at(branch.target)
        if step is None:
            return branch.when_closed(END)
        clock = END if clocks is None else clocks.get(step.name, END)
        closed = step.last_closed(clock)
        if branch.combined is None or rows.num_rows == 0:
            return branch.when_closed(closed)
        earliest = pc.min(rows["__at"]).cast(pa.int64()).as_py()
        updatable = step.updatable if isinstance(step, Aggregating) else 0
        return branch.combined if earliest + updatable >= clock else branch.when_closed(closed)

    def forward(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Between two exchanges: what steps feed other steps with, by its new key."""
        clocks = next((c for c in map(clocks_of, chunks) if c is not None), None)
        by_edge: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            branches = self._leaving(chunk.edge)
            if any(branch.target.startswith("step:") for branch in branches):
                by_edge.setdefault(chunk.edge, []).append(chunk)
            if not branches or any(not b.target.startswith("step:") for b in branches):
                yield chunk
        for edge, found in by_edge.items():
            rows, seq = unpack_all(found).to_arrow(), min(each.seq for each in found)
            failed: list[Failure] = []
            for branch in self._leaving(edge):
                if branch.target.startswith("step:"):
                    made, failures = evaluated(
                        self.evaluator, branch, self._query(branch, rows, clocks), rows
                    )
                    failed += failures
                    made, count = counted(made)
                    if step := self.program.step_at(branch.target):
                        yield status_chunk(0, rows={step.name: count})
                    yield from self.packed(branch.target, made, seq)
            yield from self.set_aside(failed, seq)

    def _leaving(self, edge: str) -> tuple[Branch, ...]:
        found = self.program.branches_of(edge)
        return tuple(branch for branch in found if not self.program.stays(branch))

    def set_aside(self, failed: list[Failure], seq: int) -> Iterator[Chunk]:
        """Rows of a step, or of a Spark step, that failed."""
        if failed:
            verdict = judge(failed, self.program.topics)
            yield status_chunk(0, **verdict.counts)
            yield from self.packed(DEAD, letters_table(verdict, self.program.topics), seq)

    def packed(self, edge: str, rows: pa.Table, seq: int) -> Iterator[Chunk]:
        if rows.num_rows == 0:
            return
        frame = pl.DataFrame(pl.from_arrow(rows))
        step = self.program.step_at(edge)
        if step is None:
            # no key to follow: any page will do, as long as it is always the same
            yield Chunk(seq % self.program.pages, edge, seq, pack(frame))
            return
        if isinstance(step, Aggregating):
            frame = prepared(frame, step.aggregations)
        frame = with_hash(frame, step.keys)
        if isinstance(step, Joining) and step.replicate:
            yield from self._replicated(step, edge, frame, seq)
            return
        for page, part in by_page(frame, self.program.pages):
            yield Chunk(page, edge, seq, pack(part))

    def _replicated(
        self, step: Joining, edge: str, frame: pl.DataFrame, seq: int
    ) -> Iterator[Chunk]:
        """The table goes to every page, so its rows may meet those of the stream anywhere."""
        pages = self.program.pages
        if edge == step.right:
            data = pack(frame)
            yield from (Chunk(page, edge, seq, data) for page in range(pages))
            return
        size = -(-frame.height // pages)
        for number, part in enumerate(frame.iter_slices(size)):
            yield Chunk((seq + number) % pages, edge, seq, pack(part))


def counted(made: pa.Table) -> tuple[pa.Table, int]:
    """Parts without the count of their rows, and that count."""
    if ROWS not in made.column_names:
        return made, made.num_rows
    return made.drop_columns([ROWS]), pc.sum(made[ROWS]).as_py() or 0


def _split(decoded: pa.Table, on_error: OnError) -> tuple[pa.Table, list[Failure]]:
    """Good rows, and what is wrong with the others."""
    rows, failures = decoded, []
    for column, step in (("__cause", DECODE), ("__ahead", AHEAD)):
        if column not in rows.column_names:
            continue
        cause = rows[column]
        if cause.null_count < len(cause):
            bad = rows.filter(pc.is_valid(cause))
            places = zip(bad["__pos"].to_pylist(), bad[column].to_pylist(), strict=True)
            failures += [
                Failure(Place(NO_TIME, pos, 0), step, text, on_error) for pos, text in places
            ]
            rows = rows.filter(pc.is_null(cause))
        rows = rows.drop_columns([column])
    return rows, failures


def _highest(source: SourceSpec, rows: pa.Table, marks: pa.Table) -> dict[TimeKeeper, int]:
    """How far each partition or producer has come. A mark is exact: lateness is not for it."""
    if source.pace.by == "tick":
        return {}
    found = _latest(source, rows)
    for name, at in _latest(source, marks).items():
        found[name] = max(at + source.pace.lateness, found.get(name, at))
    return found


def _latest(source: SourceSpec, rows: pa.Table) -> dict[TimeKeeper, int]:
    whose = rows["__producer"] if source.producer else positions.partitions(rows["__pos"])
    times = pa.table({"whose": whose, "at": rows["__at"].cast(pa.int64())})
    found = times.group_by("whose").aggregate([("at", "max")]).to_pylist()
    named = Producer if source.producer else Partition
    return {named(source.topic, each["whose"]): each["at_max"] for each in found}


def _dead_letters(lot: Lot, source: SourceSpec, dead: list[Failure]) -> pa.Table:
    first = {each.place.pos: each for each in dead}
    offsets = pa.array([positions.unpack(place).offset for place in first], pa.int64())
    letters = []
    for record in lot.records.filter(pc.is_in(lot.records["__offset"], offsets)).to_pylist():
        place = positions.pack(source.index, record["__partition"], record["__offset"])
        if place in first:
            letters.append(_letter(lot, record, first[place]))
    return pa.Table.from_pylist(letters, schema=LETTER)


def _letter(lot: Lot, record: dict[str, Any], failure: Failure) -> dict[str, Any]:
    key, key_base64 = text_or_base64(record["__key"])
    value, value_base64 = text_or_base64(record["__value"])
    at = min(record["__timestamp"], LAST) * 1000
    return {
        "topic": lot.topic,
        "partition": record["__partition"],
        "offset": record["__offset"],
        "timestamp": at,
        "step": failure.step,
        "cause": failure.cause,
        "key": key,
        "key_base64": key_base64,
        "value": value,
        "value_base64": value_base64,
        "__at": at,
        "__pos": failure.place.pos,
        "__sub": 0,
    }
