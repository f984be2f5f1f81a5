"""Lots: what is read from a partition at once, decoded and evaluated in whole columns."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import InputError
from riverrun.event_time import END, partition_name
from riverrun.kernels.aggregates import prepared
from riverrun.kernels.chunks import Chunk, by_page, pack, with_hash
from riverrun.kernels.sql import Evaluator
from riverrun.program import DEAD, Branch, Program, SourceSpec
from riverrun.schema import Column, first_line, literal, quoted

TIMESTAMP_NUMBERS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}


@dataclass(frozen=True)
class Lot:
    """Raw records of a topic, by partition and offset.

    Columns: __value, __key, __timestamp (ms), __partition, __offset, perhaps __headers.
    """

    topic: str
    records: pa.Table
    garbled: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Values that are not text, by partition and offset; null among the records."""


@dataclass
class Reading:
    """What came of a lot."""

    chunks: list[Chunk]
    highs: dict[str, int]
    """The highest event time of each partition."""
    dead: int


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
        self.evaluator = Evaluator()
        self.decoders = {source.topic: decoder(source) for source in program.sources}

    def read(self, lot: Lot, clocks: dict[str, int] | None) -> Reading:
        """`clocks` says per step what may be late; None when it is not known."""
        source = self.program.source(lot.topic)
        decoded = self._decode(source, lot)
        good, dead = _split(decoded)
        reading = Reading([], _highest(lot.topic, good), dead=0)
        seq = int(decoded["__pos"][0].as_py())
        for branch in self.program.branches_of(source.edge):
            rows, failed = self._evaluate(branch, good, clocks)
            dead += failed
            reading.chunks += self.packed(branch.target, rows, seq)
        if dead:
            letters = _dead_letters(lot, source, dead)
            reading.dead = letters.num_rows
            reading.chunks += self.packed(DEAD, letters, seq)
        return reading

    def _decode(self, source: SourceSpec, lot: Lot) -> pa.Table:
        partition, offset = (
            pc.max(lot.records[each]).as_py() for each in ("__partition", "__offset")
        )
        position(source.index, partition, offset)
        return self.evaluator.run(self.decoders[source.topic], lot=lot.records)

    def _evaluate(
        self, branch: Branch, rows: pa.Table, clocks: dict[str, int] | None
    ) -> tuple[pa.Table, list[tuple[int, str, str]]]:
        if branch.query is None:
            return rows, []
        made, failed = self.isolated(self._query(branch, rows, clocks), rows, branch.step)
        if "__row" in made.column_names and made["__row"].null_count == made.num_rows:
            made = made.drop_columns(["__row"])
        return made, failed

    def _query(self, branch: Branch, rows: pa.Table, clocks: dict[str, int] | None) -> str:
        """Rows are combined if none can be late: a window ends after each of its events."""
        step = self.program.step_at(branch.target)
        clock = END if clocks is None or step is None else clocks.get(step.name, END)
        if step is None or branch.combined is None or rows.num_rows == 0:
            return branch.at_clock(clock)
        earliest = pc.min(rows["__at"]).cast(pa.int64()).as_py()
        return branch.combined if earliest + step.updatable >= clock else branch.at_clock(clock)

    def isolated(
        self, query: str, rows: pa.Table, step: str
    ) -> tuple[pa.Table, list[tuple[int, str, str]]]:
        """Runs the query; rows that make it fail are found by halving, and set aside."""
        try:
            return self.evaluator.run(query, rows=rows), []
        except duckdb.Error as error:
            if rows.num_rows <= 1:
                cause = first_line(error)
                empty = self.evaluator.run(query, rows=rows.slice(0, 0))
                return empty, [(place, step, cause) for place in rows["__pos"].to_pylist()]
        middle = rows.num_rows // 2
        halves = [self.isolated(query, part, step) for part in (rows[:middle], rows[middle:])]
        return pa.concat_tables([table for table, _ in halves]), halves[0][1] + halves[1][1]

    def packed(self, edge: str, rows: pa.Table, seq: int) -> Iterator[Chunk]:
        if rows.num_rows == 0:
            return
        frame = pl.DataFrame(pl.from_arrow(rows))
        step = self.program.step_at(edge)
        if step is None:
            # no key to follow: any page will do, as long as it is always the same
            yield Chunk(seq % self.program.pages, edge, seq, pack(frame))
            return
        frame = prepared(frame, step.aggregations)
        for page, part in by_page(with_hash(frame, step.keys), self.program.pages):
            yield Chunk(page, edge, seq, pack(part))


def decoder(source: SourceSpec) -> str:
    """The query from raw records to columns, with event time, position and what is wrong."""
    shape = {column.name: _json_type(column.type) for column in source.schema.columns}
    columns = [
        f"{_decoded(f'__parsed.{quoted(column.name)}', column.type)} AS {quoted(column.name)}"
        for column in source.schema.columns
    ]
    at = "_timestamp" if source.time == "_timestamp" else quoted(source.time)
    metadata = [f"{_metadata(name, source)} AS {name}" for name in sorted(source.metadata)]
    moment = "make_timestamp(__timestamp * 1000)" if at == "_timestamp" else at
    return (
        f"SELECT * EXCLUDE (__value, __parsed, __place, __timestamp), {moment} AS __at, "
        f"__place AS __pos, 0::BIGINT AS __sub, {_cause(source)} AS __cause FROM ("
        f"SELECT {', '.join([*columns, *metadata])}, __timestamp, __value, __parsed, "
        f"{position(source.index, 0, 0)} + (__partition::BIGINT << 40) + __offset AS __place "
        f"FROM (SELECT *, TRY(json_transform(__value, {literal(json.dumps(shape))})) AS __parsed "
        "FROM lot))"
    )


def _json_type(type: str) -> str:
    """The type that JSON is read with: timestamps come as text or numbers."""
    if type.endswith("[]"):
        return f"{_json_type(type.removesuffix('[]'))}[]"
    if type in TIMESTAMP_NUMBERS:
        return "BIGINT"
    return "VARCHAR" if type.startswith("TIMESTAMP") else type


def _decoded(value: str, type: str) -> str:
    if _json_type(type) == type:
        return value
    if type.endswith("[]"):
        return f"list_transform({value}, lambda x: {_decoded('x', type.removesuffix('[]'))})"
    if type in TIMESTAMP_NUMBERS:
        return f"make_timestamp({value} * {TIMESTAMP_NUMBERS[type]})"
    return f"(TRY_CAST({value} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"


def _metadata(name: str, source: SourceSpec) -> str:
    return {
        "_key": "decode(__key)",
        "_headers": "__headers",
        "_timestamp": "make_timestamp(__timestamp * 1000)",
        "_topic": literal(source.topic),
        "_partition": "__partition",
        "_offset": "__offset",
    }[name]


def _cause(source: SourceSpec) -> str:
    """What is wrong with a record, or NULL. Only those with something missing are looked at."""
    checks = [
        "WHEN coalesce(__value, '') = '' THEN 'the value is empty or not UTF-8 text'",
        "WHEN NOT json_valid(__value) THEN 'the value is not JSON'",
        "WHEN json_type(__value) <> 'OBJECT' THEN 'the value is not a JSON object'",
    ]
    for column in source.schema.columns:
        path = literal(f'$."{column.name}"')
        shown = f"left(json_extract_string(__value, {path}), 100)"
        wrong = f"{literal(f'{column.name} is not a {column.type}: ')} || {shown}"
        checks.append(f"WHEN {_lost(column)} THEN {wrong}")
    if source.time != "_timestamp":
        missing_time = literal(f"no time: {source.time} is missing")
        checks.append(f"WHEN {quoted(source.time)} IS NULL THEN {missing_time}")
    missing = " OR ".join(_incomplete(column) for column in source.schema.columns)
    return f"CASE WHEN {missing} THEN CASE {' '.join(checks)} END END"


def _incomplete(column: Column) -> str:
    name = quoted(column.name)
    has_nulls = f" OR list_count({name}) < len({name})" if column.type.endswith("[]") else ""
    return f"{name} IS NULL{has_nulls}"


def _lost(column: Column) -> str:
    """Whether JSON has a value where the column, or an element of its list, is null."""
    name = quoted(column.name)
    field, items = literal(f'$."{column.name}"'), literal(f'$."{column.name}"[*]')
    lost = f"{name} IS NULL AND coalesce(json_type(__value, {field}), 'NULL') <> 'NULL'"
    if not column.type.endswith("[]"):
        return lost
    # an element may be null in JSON too, so those with a value are counted on both sides
    given = f"list_filter(json_extract(__value, {items}), lambda x: json_type(x) <> 'NULL')"
    return f"{lost} OR list_count({name}) < len({given})"


def _split(decoded: pa.Table) -> tuple[pa.Table, list[tuple[int, str, str]]]:
    """Good rows, and (position, step, cause) of the others."""
    cause = decoded["__cause"]
    rows = decoded.drop_columns(["__cause"])
    if cause.null_count == len(cause):
        return rows, []
    bad = decoded.filter(pc.is_valid(cause))
    places = zip(bad["__pos"].to_pylist(), bad["__cause"].to_pylist(), strict=True)
    return rows.filter(pc.is_null(cause)), [(place, "decode", text) for place, text in places]


def _highest(topic: str, rows: pa.Table) -> dict[str, int]:
    partition = pc.bit_wise_and(pc.shift_right(rows["__pos"], 40), 0xFFFF)
    times = pa.table({"partition": partition, "at": rows["__at"].cast(pa.int64())})
    found = times.group_by("partition").aggregate([("at", "max")]).to_pylist()
    return {partition_name(topic, each["partition"]): each["at_max"] for each in found}


def _dead_letters(lot: Lot, source: SourceSpec, dead: list[tuple[int, str, str]]) -> pa.Table:
    first = {place: (step, cause) for place, step, cause in reversed(dead)}
    offsets = pa.array([place & ((1 << 40) - 1) for place in first], pa.int64())
    letters = []
    for record in lot.records.filter(pc.is_in(lot.records["__offset"], offsets)).to_pylist():
        place = position(source.index, record["__partition"], record["__offset"])
        if place in first:
            letters.append(_letter(lot, record, *first[place]) | {"__pos": place})
    return pa.Table.from_pylist(letters, schema=_LETTER)


_LETTER = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us")), ("step", pa.string()), ("cause", pa.string()),
        ("key", pa.string()), ("value", pa.string()), ("value_base64", pa.string()),
        ("__at", pa.timestamp("us")), ("__pos", pa.int64()), ("__sub", pa.int64()),
    ]
)  # fmt: skip


def _letter(lot: Lot, record: dict[str, Any], step: str, cause: str) -> dict[str, Any]:
    key = record["__key"]
    garbled = lot.garbled.get((record["__partition"], record["__offset"]))
    return {
        "topic": lot.topic,
        "partition": record["__partition"],
        "offset": record["__offset"],
        "timestamp": record["__timestamp"] * 1000,
        "step": step,
        "cause": cause,
        "key": key.decode(errors="replace") if isinstance(key, bytes) else None,
        "value": record["__value"],
        "value_base64": base64.b64encode(garbled).decode() if garbled else None,
        "__at": record["__timestamp"] * 1000,
        "__sub": 0,
    }
