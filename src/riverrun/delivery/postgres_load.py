"""What is sent to PostgreSQL: made in the background, while the server works.

Most columns can go as they are, in binary; an output with another one goes as CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

import pyarrow as pa
from pyarrow import csv

from riverrun.delivery.database import VERSION, Changes
from riverrun.delivery.destination import Part, Rows
from riverrun.delivery.encode import with_texts
from riverrun.delivery.postgres_binary import binary, possible
from riverrun.delivery.postgres_tables import types_of
from riverrun.delivery.progress import Progress, checksum
from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec
from riverrun.schema import nested

Format = Literal["binary", "csv"]


@dataclass(frozen=True)
class Piece:
    """Rows, or keys of rows, as they are sent."""

    format: Format
    data: bytes = b""
    rows: int = 0
    nulls: bool = False


@dataclass(frozen=True)
class Load:
    """An output's changes, made once, however often they are sent."""

    output: OutputSpec
    changed: Future[Piece]
    fresh: Future[Piece]
    gone: Future[Piece]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return self.fresh.result(), self.changed.result(), self.gone.result()


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
        rows = rows if form == "binary" else with_texts(rows)
        changes = Changes(output, rows, self._evaluator, cell)

        def made(kind: Callable[[], pa.Table | None]) -> Future[Piece]:
            return self._background.submit(lambda: _piece(output, kind(), form))

        # in the order in which they are sent
        changed = made(lambda: self._versioned(output, changes.changed()))
        fresh = made(lambda: self._versioned(output, changes.fresh()))
        return Load(output, changed, fresh, gone=made(changes.gone))

    def _versioned(self, output: OutputSpec, rows: pa.Table | None) -> pa.Table | None:
        if rows is None or not output.table:
            return rows
        version = pa.repeat(pa.scalar(self._part.tick, pa.int64()), rows.num_rows)
        return rows.append_column(VERSION, version)


def progress(part: Part, loads: list[Load]) -> Progress:
    """Of all pieces: they are waited for."""
    pieces = [piece for each in loads for piece in each.pieces]
    rows = sum(piece.rows for piece in pieces)
    return Progress(part.batch, rows, checksum(piece.data for piece in pieces), part.run)


def cell(type: str, expression: str) -> str:
    """How a value stands in CSV. Times are ISO 8601 text already."""
    if nested(type):
        return f"to_json({expression})::VARCHAR"
    if type == "BLOB":
        return f"'\\x' || hex({expression})"
    if type == "TIME":
        return f"{expression}::TIME"
    return f"{expression}::VARCHAR" if type.startswith(("ENUM", '"NULL"')) else expression


def _piece(output: OutputSpec, rows: pa.Table | None, form: Format) -> Piece:
    if not rows:
        return Piece(form)
    data = _csv(rows) if form == "csv" else binary(rows, types_of(output))
    nulls = any(column.null_count for column in rows.columns)
    return Piece(form, data, rows.num_rows, nulls)


def _csv(rows: pa.Table) -> bytes:
    """Texts stand in quotes, so that an empty one is not null."""
    out = BytesIO()
    csv.write_csv(rows, out, csv.WriteOptions(include_header=False, batch_size=16_384))
    return out.getvalue()
