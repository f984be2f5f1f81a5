"""Rows in the binary format of COPY, whole columns at a time: the server has no texts to read.

A row is the number of its columns, and each value with its length before it. Numbers are
big-endian; days and microseconds are counted from the year 2000.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.outputs import OutputSpec
from riverrun.sinks.postgresql.types import column_type

TEXT = "text"
NUMBERS = {
    "boolean": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "date": pa.int32(),
    "timestamp with time zone": pa.int64(),
}
FINER = "TIMESTAMP_NS"
"""PostgreSQL rounds it to microseconds when it reads it as text."""
FIRST = {"date": 10_957, "timestamp with time zone": 946_684_800_000_000}
"""The first day of 2000, as Arrow counts."""
BEGIN, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
NULL = b"\xff\xff\xff\xff"


def possible(output: OutputSpec) -> bool:
    """Whether all columns of the output can be written so."""
    return all(_possible(column.type) for column in output.schema.columns)


def _possible(type: str) -> bool:
    return type == "VARCHAR" or (column_type(type) in NUMBERS and type != FINER)


def binary(rows: pa.RecordBatch, types: Mapping[str, str]) -> bytes:
    """Rows that stand between BEGIN and END, for a table whose columns have these very types."""
    count = pa.scalar(struct.pack(">h", rows.num_columns))
    cells = [_cells(rows[name], types[name]) for name in rows.schema.names]
    lines = pc.binary_join_element_wise(count, *cells, b"")
    return bytes(lines.buffers()[2][: lines.total_values_length])


def _cells(values: pa.Array, type: str) -> pa.Array:
    """Each value with its length before it."""
    cells = _texts(values) if type == TEXT else _numbers(values, type)
    return pc.if_else(values.is_valid(), cells, NULL) if values.null_count else cells


def _texts(values: pa.Array) -> pa.Array:
    raw = values.cast(pa.binary())
    lengths = _items(pc.binary_length(raw).fill_null(0).to_numpy().astype(">i4"))
    return pc.binary_join_element_wise(lengths, raw, b"")


def _numbers(values: pa.Array, type: str) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))
    # any other: counts from zero
    numbers = values.cast(NUMBERS[type]).fill_null(0).to_numpy() - FIRST.get(type, 0)
    made = np.empty(len(numbers), [("length", ">i4"), ("value", numbers.dtype.newbyteorder(">"))])
    made["length"] = numbers.itemsize
    made["value"] = numbers
    return _items(made)


def _items(made: np.ndarray) -> pa.Array:
    """The bytes of each item."""
    width, buffer = pa.binary(made.itemsize), pa.py_buffer(made)
    fixed = pa.FixedSizeBinaryArray.from_buffers(width, len(made), [None, buffer])
    return fixed.cast(pa.binary())
