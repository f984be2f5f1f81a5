"""What is sent to PostgreSQL, as CSV: made in the background, while the server works."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
from pyarrow import csv

from riverrun.delivery.database import VERSION, Changes
from riverrun.delivery.destination import Part
from riverrun.delivery.progress import Progress, checksum
from riverrun.program import OutputSpec
from riverrun.schema import nested


@dataclass(frozen=True)
class Piece:
    """Rows, or keys of rows, as text."""

    text: bytes = b""
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


def load(changes: Changes, tick: int, background: Executor) -> Load:
    """In the order in which they are sent."""
    return Load(
        changes.output,
        changed=background.submit(lambda: _put(changes.changed(), tick)),
        fresh=background.submit(lambda: _put(changes.fresh(), tick, changes.output.table)),
        gone=background.submit(lambda: _piece(changes.gone())),
    )


def progress(part: Part, loads: list[Load]) -> Progress:
    """Of all pieces: they are waited for."""
    pieces = [piece for each in loads for piece in each.pieces]
    rows = sum(piece.rows for piece in pieces)
    return Progress(part.batch, rows, checksum(piece.text for piece in pieces), part.run)


def cell(type: str, expression: str) -> str:
    """How a value stands in CSV. Times are ISO 8601 text already."""
    if nested(type):
        return f"to_json({expression})::VARCHAR"
    if type == "BLOB":
        return f"'\\x' || hex({expression})"
    if type == "TIME":
        return f"{expression}::TIME"
    return f"{expression}::VARCHAR" if type.startswith(("ENUM", '"NULL"')) else expression


def _put(rows: pa.Table | None, tick: int, table: bool = True) -> Piece:
    if rows and table:
        version = pa.repeat(pa.scalar(tick, pa.int64()), rows.num_rows)
        rows = rows.append_column(VERSION, version)
    return _piece(rows)


def _piece(rows: pa.Table | None) -> Piece:
    if not rows:
        return Piece()
    nulls = any(column.null_count for column in rows.columns)
    return Piece(_csv(rows), rows.num_rows, nulls)


def _csv(rows: pa.Table) -> bytes:
    """Texts stand in quotes, so that an empty one is not null."""
    out = BytesIO()
    csv.write_csv(rows, out, csv.WriteOptions(include_header=False, batch_size=16_384))
    return out.getvalue()
