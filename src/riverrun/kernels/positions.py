"""Positions: one number per record, that orders records by source, partition and offset.

From the highest bit: 7 bits of the source's index, 16 of the partition, 40 of the offset. A
negative one belongs to what a timer gave, which was never in a topic.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import InputError

SOURCE, PARTITION = 56, 40
"""The lowest bit of each; the offset's is 0."""
SOURCES, PARTITIONS, OFFSETS = 1 << 7, 1 << 16, 1 << 40


class Position(NamedTuple):
    source: int
    partition: int
    offset: int


def pack(source: int, partition: int, offset: int) -> int:
    if source >= SOURCES or partition >= PARTITIONS or offset >= OFFSETS:
        raise InputError(
            "a position is out of range",
            got=f"source {source}, partition {partition}, offset {offset}",
        )
    return source << SOURCE | partition << PARTITION | offset


def unpack(pos: int) -> Position:
    return Position(pos >> SOURCE, pos >> PARTITION & (PARTITIONS - 1), pos & (OFFSETS - 1))


def first_of_partition(pos: int) -> int:
    return pos - pos % OFFSETS


def in_sql(source: int) -> str:
    """The position of records in a query."""
    return f"{source << SOURCE} + (__partition::BIGINT << {PARTITION}) + __offset"


def in_polars(pos: pl.Expr) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Source, partition and offset of each."""
    return pos // (1 << SOURCE), pos // (1 << PARTITION) % PARTITIONS, pos % OFFSETS


def partitions(positions: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.bit_wise_and(pc.shift_right(positions, PARTITION), PARTITIONS - 1)


def event_name() -> pl.Expr:
    """One text for each row of a stream: its record, and its place in it if there are several."""
    within = pl.concat_str("__pos", pl.lit("-"), "__sub")
    return pl.when(pl.col("__sub") == 0).then(pl.col("__pos").cast(pl.String)).otherwise(within)
