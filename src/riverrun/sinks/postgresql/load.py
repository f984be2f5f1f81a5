"""What is sent to PostgreSQL, and made while the server works.

Most columns can go as they are, in binary; an output with another one goes as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from io import BytesIO
from typing import Literal
from zlib import crc32

import pyarrow as pa
from pyarrow import csv

from riverrun.formats.instants import with_texts
from riverrun.outputs import Evaluator, OutputSpec, Part, Rows
from riverrun.schema import nested
from riverrun.sinks.database import VERSION, Changes
from riverrun.sinks.postgresql.binary import BEGIN, END, binary, possible
from riverrun.sinks.postgresql.storable import storable
from riverrun.sinks.postgresql.tables import types_of
from riverrun.sinks.progress import Progress, checksum

Format = Literal["binary", "csv"]
LOT = 16_384
"""Rows that are encoded together: the server works at one lot while the next is made."""


class Piece:
    """Rows, or keys of rows, in lots. Each is made when it is first asked for."""

    def __init__(self, output: OutputSpec, rows: pa.Table | None, form: Format) -> None:
        rows = storable(output, rows) if rows else None
        self.format, self.rows = form, rows.num_rows if rows else 0
        self.nulls = any(column.null_count for column in rows.columns) if rows else False
        self._lots: list[bytes] = []
        self._checksum = 0
        self._left = _encoded(output, rows, form) if rows else iter(())

    def lots(self) -> Iterator[bytes]:
        """All of them, at every attempt."""
        yield from self._lots
        for lot in self._left:
            self._lots.append(lot)
            self._checksum = crc32(lot, self._checksum)
            yield lot

    def checksum(self) -> int:
        for _ in self.lots():
            pass
        return self._checksum


class Load:
    """An output's changes. Rows that take the place of others are there at once."""

    def __init__(self, changes: Changes, form: Format, tick: int, background: Executor) -> None:
        self.output = changes.output
        self._changes, self._format = changes, form
        self._tick, self._background = tick, background
        self._rest: tuple[Future[Piece], Future[Piece]] | None = None
        self.changed = self._put(changes.changed())

    def go_on(self) -> tuple[Future[Piece], Future[Piece]]:
        """Makes new rows, and the keys of those to delete: it is time while the server works."""
        if self._rest is None:
            submit, changes = self._background.submit, self._changes
            fresh = submit(lambda: self._put(changes.fresh()))
            gone = submit(lambda: Piece(self.output, changes.gone(), self._format))
            self._rest = fresh, gone
        return self._rest

    @property
    def fresh(self) -> Piece:
        return self.go_on()[0].result()

    @property
    def gone(self) -> Piece:
        return self.go_on()[1].result()

    def _put(self, rows: pa.Table | None) -> Piece:
        if rows and self.output.table:
            version = pa.repeat(pa.scalar(self._tick, pa.int64()), rows.num_rows)
            rows = rows.append_column(VERSION, version)
        return Piece(self.output, rows, self._format)


class Loader:
    """Makes what is sent of a part."""

    def __init__(
        self, part: Part, found: Sequence[Rows], evaluator: Evaluator, background: Executor
    ) -> None:
        self.outputs = [output for output, _ in found]
        self._part, self._found = part, found
        self._evaluator, self._background = evaluator, background
        self._made: dict[tuple[bool, ...], list[Load]] = {}

    def loads(self, exact: tuple[bool, ...]) -> list[Load]:
        """The same at each attempt, unless somebody has changed a table meanwhile.

        `exact` tells of each output whether its table has the very types that are written.
        """
        if exact not in self._made:
            each = zip(self._found, exact, strict=True)
            self._made[exact] = [self._load(*rows, exact=own) for rows, own in each]
        return self._made[exact]

    def _load(self, output: OutputSpec, rows: pa.Table, *, exact: bool) -> Load:
        form: Format = "binary" if exact and possible(output) else "csv"
        if form == "binary":
            changes = Changes(output, rows, self._evaluator, None)
        else:
            changes = Changes(output, with_texts(rows), self._evaluator, cell)
        return Load(changes, form, self._part.tick, self._background)


def progress(part: Part, loads: list[Load]) -> Progress:
    pieces = [piece for each in loads for piece in (each.fresh, each.changed, each.gone)]
    total = checksum(str(piece.checksum()).encode() for piece in pieces)
    return Progress(part.batch, sum(piece.rows for piece in pieces), total, part.run)


def cell(type: str, expression: str) -> str:
    """How a value stands in CSV. Times are ISO 8601 text already."""
    if nested(type):
        return f"to_json({expression})::VARCHAR"
    if type == "BLOB":
        return f"'\\x' || hex({expression})"
    if type == "TIME":
        return f"{expression}::TIME"
    return f"{expression}::VARCHAR" if type.startswith(("ENUM", '"NULL"')) else expression


def _encoded(output: OutputSpec, rows: pa.Table, form: Format) -> Iterator[bytes]:
    lots = rows.combine_chunks().to_batches(max_chunksize=LOT)
    if form == "csv":
        yield from map(_csv, lots)
    else:
        types = types_of(output)
        yield BEGIN
        yield from (binary(lot, types) for lot in lots)
        yield END


def _csv(rows: pa.RecordBatch) -> bytes:
    """Texts stand in quotes, so that an empty one is not null."""
    out = BytesIO()
    csv.write_csv(rows, out, csv.WriteOptions(include_header=False))
    return out.getvalue()
