"""Lots: what is read from a partition at once, decoded and evaluated in whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.clock import Now, Punctuation
from riverrun.columns import TRUNCATED
from riverrun.durations import END
from riverrun.edges import DEAD, MARK, Edge
from riverrun.kafka.records import HOLDING, bytes_of, text_or_base64
from riverrun.kernels import positions
from riverrun.kernels.arrivals import arrival, at_tick
from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.first_look import first_look
from riverrun.kernels.isolation import isolated
from riverrun.kernels.letters import (
    AHEAD,
    DECODE,
    LAST,
    LETTER,
    NO_TIME,
    POISON,
    Failure,
    OnError,
    Place,
    RecordPlace,
    judge,
)
from riverrun.kernels.messages import Status
from riverrun.kernels.personal import sealed
from riverrun.kernels.program import Program, ReadTopic
from riverrun.kernels.revealing import keys_at
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import shared_evaluator
from riverrun.partitions import Partition, real

NOTHING: Mapping[RecordPlace, str] = {}


@dataclass(frozen=True)
class Lot:
    """Raw records of a topic, by partition and offset.

    Columns: __value, __key, __timestamp (ms), __partition, __offset, perhaps __headers.
    """

    topic: str
    records: pa.Table


class Reading(NamedTuple):
    """What came of a lot."""

    chunks: list[Chunk]
    said: Punctuation
    """The highest event time of each partition or producer."""
    counts: Status


class LotReader:
    """Turns records into chunks for the first exchange, or for the outputs. Those that are `aside`,
    each with its cause, are dead letters without a look at them."""

    def __init__(self, program: Program, aside: Mapping[RecordPlace, str] = NOTHING) -> None:
        self.program, self.aside = program, aside
        self.evaluator = shared_evaluator(program.functions)
        self.router = Router(program, self.evaluator)
        self.arrivals = {source.topic: arrival(source) for source in program.sources}

    def read(self, lot: Lot, now: Now) -> Reading:
        source = self.program.source(lot.topic)
        read, poison = self._without(source, lot)
        if not read.records.num_rows:
            return self._only_letters(source, lot, poison)
        decoded = self._decode(source, read, now)
        good, dead = _split(decoded, source.on_error)
        marks, good, failed = self._marks(source, good)
        said = _highest(source, good, marks)
        said.highs |= self._other_times(source, good, now)
        good = good.drop_columns(["__producer"]) if source.producer else good
        routed = self.router.along(self.program.branches_of(source.edge), good, now.clocks)
        seq = int(decoded["__pos"][0].as_py())
        chunks = [c for edge, rows in routed.made for c in self.router.packed(edge, rows, seq)]
        verdict = judge([*poison, *dead, *failed, *routed.failures], self.program.topics)
        if verdict.aside:
            chunks += self.router.packed(DEAD, _dead_letters(lot, source, verdict.aside), seq)
        counts = Status(
            events=lot.records.num_rows, rows=routed.rows, sizes=_sizes(lot), **verdict.counts
        )
        if now.first:
            counts.add(first_look(source, read.records, good))
        return Reading(chunks, said, counts)

    def _without(self, source: ReadTopic, lot: Lot) -> tuple[Lot, list[Failure]]:
        """The lot without the records that nothing may look at."""
        causes = {
            place[1:]: cause for place, cause in self.aside.items() if place.topic == lot.topic
        }
        if not causes:
            return lot, []
        partitions, offsets = (lot.records[n].to_pylist() for n in ("__partition", "__offset"))
        places = list(zip(partitions, offsets, strict=True))
        failures = [
            Failure(Place(NO_TIME, positions.pack(source.index, *each), 0), POISON, causes[each],
                    "set aside")
            for each in places if each in causes
        ]  # fmt: skip
        left = lot.records.filter(pa.array([each not in causes for each in places]))
        return Lot(lot.topic, left), failures

    def _only_letters(self, source: ReadTopic, lot: Lot, failures: list[Failure]) -> Reading:
        verdict = judge(failures, self.program.topics)
        letters = _dead_letters(lot, source, verdict.aside)
        chunks = list(self.router.packed(DEAD, letters, failures[0].place.pos))
        return Reading(chunks, Punctuation(), Status(events=lot.records.num_rows, **verdict.counts))

    def from_spark(self, edge: Edge, rows: pa.Table) -> Iterator[Chunk]:
        """What a step of the user's own gave, by its new key."""
        if rows.num_rows:
            seq = int(rows["__pos"][0].as_py())
            yield from self.router.chunks(self.program.branches_of(edge), rows, seq)

    def forward(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """Between two exchanges: what steps feed other steps with, by its new key."""
        marks = (Punctuation.decoded(chunk.data) for chunk in chunks if chunk.edge == MARK)
        clocks = next((mark.clocks for mark in marks if mark.clocks is not None), None)
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

    def _decode(self, source: ReadTopic, lot: Lot, now: Now) -> pa.Table:
        partition, offset = (
            pc.max(lot.records[each]).as_py() for each in ("__partition", "__offset")
        )
        positions.pack(source.index, partition, offset)  # an error if one is too large
        query = self.arrivals[source.topic]
        given = source.format.prepared(lot.records, source.fields, source.table_key)
        rows = self.evaluator.run(query, at_tick(query, source, now), lot=given)
        if not source.personal:
            return rows
        again = source.topic in self.program.own_topics
        return sealed(rows, source, keys_at(self.program.keys), again=again)

    def _other_times(self, source: ReadTopic, rows: pa.Table, now: Now) -> dict[Partition, int]:
        """The highest of each further event time that is not too far ahead. What fails is told
        where it is used."""
        last = now.tick + source.max_ahead if now.wall and source.max_ahead is not None else END
        found: dict[Partition, int] = {}
        for each in self.program.timings:
            if each.topic == source.topic:
                timed, _ = isolated(
                    self.evaluator, each.query, rows, line=each.keeper, on_error="drop"
                )
                known = pc.less_equal(timed["__at"].cast(pa.int64()), last)
                timed = timed.filter(pc.fill_null(known, False))
                found |= _by_partition(each.keeper, timed)
        return found

    def _marks(self, source: ReadTopic, rows: pa.Table) -> tuple[pa.Table, pa.Table, list[Failure]]:
        """Records that only tell the time, and those that are rows."""
        if source.punctuation is None:
            return rows.slice(0, 0), rows, []
        query = f"SELECT *, coalesce(({source.punctuation}), false) AS __mark FROM rows"
        made, failed = isolated(
            self.evaluator, query, rows, line=str(source.at), on_error=source.on_error
        )
        mark = made["__mark"]
        made = made.drop_columns(["__mark"])
        return made.filter(mark), made.filter(pc.invert(mark)), failed


def _sizes(lot: Lot) -> dict[str, list[int]]:
    """Records and bytes."""
    there = [each for each in HOLDING if each in lot.records.column_names]
    return {lot.topic: [lot.records.num_rows, sum(bytes_of(lot.records[each]) for each in there)]}


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


def _highest(source: ReadTopic, rows: pa.Table, marks: pa.Table) -> Punctuation:
    """How far each partition or producer has come. A mark is exact: lateness is not for it."""
    if source.pace.by == "tick":
        return Punctuation()
    found, exact = _latest(source, rows), _latest(source, marks)
    later = {name: at + source.pace.lateness for name, at in exact.items()}
    found |= {name: at for name, at in later.items() if at > found.get(name, at - 1)}
    if source.producer:
        return Punctuation(producers={source.topic: found})
    return Punctuation(highs=_partitions(source.topic, found))


def _latest(source: ReadTopic, rows: pa.Table) -> dict[Any, int]:
    """By the name of the producer, or the number of the partition."""
    if TRUNCATED in rows.column_names:
        # the time of a record is ahead of that of changes which are still to be read
        rows = rows.filter(pc.is_valid(rows[TRUNCATED]))
    whose = rows["__producer"] if source.producer else positions.partitions(rows["__pos"])
    return _greatest(whose, rows["__at"])


def _by_partition(topic: str, rows: pa.Table) -> dict[Partition, int]:
    return _partitions(topic, _greatest(positions.partitions(rows["__pos"]), rows["__at"]))


def _partitions(topic: str, highs: dict[int, int]) -> dict[Partition, int]:
    return {Partition(topic, number): high for number, high in highs.items()}


def _greatest(whose: pa.ChunkedArray, at: pa.ChunkedArray) -> dict[Any, int]:
    times = pa.table({"whose": whose, "at": at.cast(pa.int64())})
    found = times.group_by("whose").aggregate([("at", "max")])
    return dict(zip(found["whose"].to_pylist(), found["at_max"].to_pylist(), strict=True))


def _dead_letters(lot: Lot, source: ReadTopic, dead: list[Failure]) -> pa.Table:
    first = {each.place.pos: each for each in dead}
    offsets = pa.array([positions.unpack(place).offset for place in first], pa.int64())
    letters = []
    for record in lot.records.filter(pc.is_in(lot.records["__offset"], offsets)).to_pylist():
        place = positions.pack(source.index, record["__partition"], record["__offset"])
        if place in first:
            known = {"__timestamp", "__partition", "__offset"}
            # whose the record is, is not known: its content stays in its topic
            kept = {n: v for n, v in record.items() if n in known} if source.personal else record
            letters.append(_letter(lot, kept, first[place]))
    return pa.Table.from_pylist(letters, schema=LETTER)


def _letter(lot: Lot, record: dict[str, Any], failure: Failure) -> dict[str, Any]:
    key, key_base64 = text_or_base64(record.get("__key"))
    value, value_base64 = text_or_base64(record.get("__value"))
    at = min(record["__timestamp"], LAST) * 1000
    return {
        "topic": real(lot.topic),
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
