"""Lots: what is read from a partition at once, decoded and evaluated in whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.edges import DEAD, MARK, Edge
from riverrun.errors import InputError
from riverrun.event_time import Now, partition_name, producer_name
from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.decode import at_tick, decoder
from riverrun.kernels.isolation import isolated
from riverrun.kernels.letters import (
    AHEAD,
    DECODE,
    LAST,
    LETTER,
    NO_TIME,
    Failure,
    OnError,
    Place,
    judge,
    text_or_base64,
)
from riverrun.kernels.messages import Status, punctuation_of
from riverrun.kernels.program import Program, SourceSpec
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import Evaluator


@dataclass(frozen=True)
class Lot:
    """Raw records of a topic, by partition and offset.

    Columns: __value, __key, __timestamp (ms), __partition, __offset, perhaps __headers.
    """

    topic: str
    records: pa.Table
    garbled: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Values that are not text, by partition and offset; null among the records."""


class Reading(NamedTuple):
    """What came of a lot."""

    chunks: list[Chunk]
    highs: dict[str, int]
    """The highest event time of each partition or producer."""
    counts: Status


def position(source: int, partition: int, offset: int) -> int:
    """One number that orders records by source, partition and offset."""
    if source >= 1 << 7 or partition >= 1 << 16 or offset >= 1 << 40:
        raise InputError(
            "a position is out of range",
            got=f"source {source}, partition {partition}, offset {offset}",
        )
    return source << 56 | partition << 40 | offset


class LotReader:
    """Turns records into chunks for the first exchange, or for the outputs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.evaluator = Evaluator(program.functions)
        self.router = Router(program, self.evaluator)
        self.decoders = {source.topic: decoder(source) for source in program.sources}

    def read(self, lot: Lot, now: Now) -> Reading:
        source = self.program.source(lot.topic)
        decoded = self._decode(source, lot, now)
        good, dead = _split(decoded, source.on_error)
        marks, good, failed = self._marks(source, good)
        highs = _highest(source, good, marks)
        good = good.drop_columns(["__producer"]) if source.producer else good
        routed = self.router.along(self.program.branches_of(source.edge), good, now.clocks)
        seq = int(decoded["__pos"][0].as_py())
        chunks = [c for edge, rows in routed.made for c in self.router.packed(edge, rows, seq)]
        verdict = judge([*dead, *failed, *routed.failures], self.program.topics)
        if verdict.aside:
            chunks += self.router.packed(DEAD, _dead_letters(lot, source, verdict.aside), seq)
        counts = Status(events=lot.records.num_rows, rows=routed.rows, **verdict.counts)
        return Reading(chunks, highs, counts)

    def from_spark(self, edge: Edge, rows: pa.Table) -> Iterator[Chunk]:
        """What a step of the user's own gave, by its new key."""
        if rows.num_rows:
            seq = int(rows["__pos"][0].as_py())
            yield from self.router.chunks(self.program.branches_of(edge), rows, seq)

    def forward(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Between two exchanges: what steps feed other steps with, by its new key."""
        clocks = next((p.clocks for c in chunks if c.edge == MARK
                       and (p := punctuation_of(c.data)).clocks is not None), None)  # fmt: skip
        by_edge: dict[Edge, list[Chunk]] = {}
        for chunk in chunks:
            leaving = self.program.leaving(chunk.edge)
            if any(branch.target.kind == "step" for branch in leaving):
                by_edge.setdefault(chunk.edge, []).append(chunk)
            if not leaving or any(branch.target.kind != "step" for branch in leaving):
                yield chunk
        for edge, found in by_edge.items():
            rows, seq = unpack_all(found).to_arrow(), min(each.seq for each in found)
            into = [b for b in self.program.leaving(edge) if b.target.kind == "step"]
            yield from self.router.chunks(into, rows, seq, clocks)

    def _decode(self, source: SourceSpec, lot: Lot, now: Now) -> pa.Table:
        partition, offset = (
            pc.max(lot.records[each]).as_py() for each in ("__partition", "__offset")
        )
        position(source.index, partition, offset)
        query = at_tick(self.decoders[source.topic], source, now)
        records = _without_null_garbage(lot) if source.table_key and lot.garbled else lot.records
        return self.evaluator.run(query, lot=records)

    def _marks(
        self, source: SourceSpec, rows: pa.Table
    ) -> tuple[pa.Table, pa.Table, list[Failure]]:
        """Records that only tell the time, and those that are rows."""
        if source.punctuation is None:
            return rows.slice(0, 0), rows, []
        query = f"SELECT *, coalesce(({source.punctuation}), false) AS __mark FROM rows"
        made, failed = isolated(
            self.evaluator, query, rows, line=source.at, on_error=source.on_error
        )
        mark = made["__mark"]
        made = made.drop_columns(["__mark"])
        return made.filter(mark), made.filter(pc.invert(mark)), failed


def _without_null_garbage(lot: Lot) -> pa.Table:
    """Records whose values are not text are not those that have none, which delete."""
    places = zip(*(lot.records[n].to_pylist() for n in ("__partition", "__offset")), strict=True)
    garbled = pa.array([place in lot.garbled for place in places])
    values = pc.if_else(garbled, "", lot.records["__value"])
    return lot.records.set_column(lot.records.schema.get_field_index("__value"), "__value", values)


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


def _highest(source: SourceSpec, rows: pa.Table, marks: pa.Table) -> dict[str, int]:
    """How far each partition or producer has come. A mark is exact: lateness is not for it."""
    if source.pace.by == "tick":
        return {}
    found = _latest(source, rows)
    for name, at in _latest(source, marks).items():
        found[name] = max(at + source.pace.lateness, found.get(name, at))
    return found


def _latest(source: SourceSpec, rows: pa.Table) -> dict[str, int]:
    if source.producer:
        whose = rows["__producer"]
    else:
        whose = pc.bit_wise_and(pc.shift_right(rows["__pos"], 40), 0xFFFF)
    times = pa.table({"whose": whose, "at": rows["__at"].cast(pa.int64())})
    found = times.group_by("whose").aggregate([("at", "max")]).to_pylist()
    named = producer_name if source.producer else partition_name
    return {named(source.topic, each["whose"]): each["at_max"] for each in found}


def _dead_letters(lot: Lot, source: SourceSpec, dead: list[Failure]) -> pa.Table:
    first = {each.place.pos: each for each in dead}
    offsets = pa.array([place & ((1 << 40) - 1) for place in first], pa.int64())
    letters = []
    for record in lot.records.filter(pc.is_in(lot.records["__offset"], offsets)).to_pylist():
        place = position(source.index, record["__partition"], record["__offset"])
        if place in first:
            letters.append(_letter(lot, record, first[place]))
    return pa.Table.from_pylist(letters, schema=LETTER)


def _letter(lot: Lot, record: dict[str, Any], failure: Failure) -> dict[str, Any]:
    key, key_base64 = text_or_base64(record["__key"])
    at = min(record["__timestamp"], LAST) * 1000
    garbled = lot.garbled.get((record["__partition"], record["__offset"]))
    return {
        "topic": lot.topic,
        "partition": record["__partition"],
        "offset": record["__offset"],
        "timestamp": at,
        "step": failure.step,
        "cause": failure.cause,
        "key": key,
        "key_base64": key_base64,
        "value": record["__value"],
        "value_base64": text_or_base64(garbled)[1],
        "__at": at,
        "__pos": failure.place.pos,
        "__sub": 0,
    }
