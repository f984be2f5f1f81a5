"""Files of an archive: the records of a range of offsets, with all that Kafka has of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from riverrun.archive.folder import Piece, moved, name_of, writing
from riverrun.errors import InputError
from riverrun.kafka.records import HEADERS

TIMESTAMP_TYPE = "__timestamp_type"
KINDS = (None, "create", "append")
"""Who said a record's time, by Kafka's number: nobody, its producer, the broker."""

SCHEMA = pa.schema(
    {
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "timestamp_type": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
    }
)
GROUP = 16 << 20
"""Bytes of records after which a row group ends: as much is in memory."""


class Draft:
    """A file that is being written, beside the others; it gets its name when it is whole."""

    def __init__(self, folder: Path, start: int) -> None:
        self.start = self.end = start
        self.records = self.bytes = 0
        self.path = folder / f".{start:020}.part"
        with writing(folder):
            folder.mkdir(exist_ok=True)
            self._file = self.path.open("wb")
        self._writer = parquet.ParquetWriter(
            self._file, SCHEMA, compression="zstd", write_statistics=["offset", "timestamp"],
            use_dictionary=["timestamp_type", "key", "headers.list.element.name"],
        )  # fmt: skip
        self._waiting: list[pa.Table] = []
        self._size = 0

    def add(self, rows: pa.Table, end: int) -> None:
        """Records, and the offset up to which there are no others."""
        self.end = end
        if rows.num_rows:
            self._waiting.append(_kept(rows))
            self.records += rows.num_rows
            self._size, self.bytes = self._size + rows.nbytes, self.bytes + rows.nbytes
        if self._size >= GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._waiting, self._size = [], 0

    def finish(self) -> Piece:
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        path = self.path.with_name(name_of(self.start, self.end, "parquet"))
        moved(self.path, path)
        return Piece(self.start, self.end, path)

    def drop(self) -> None:
        self._writer.close()
        self._file.close()
        with suppress(FileNotFoundError):
            self.path.unlink()


def records_of(path: Path, start: int, end: int, *, headers: bool) -> Iterator[pa.Table]:
    """The records of a file between two offsets, as they would come from the topic."""
    wanted = ["offset", "timestamp", "key", "value", *(["headers"] if headers else [])]
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            if _highest(file, group, "offset") >= start:
                rows = file.read_row_group(group, columns=wanted, use_threads=False)
                offsets = rows["offset"].to_numpy()
                low, high = (int(each) for each in np.searchsorted(offsets, [start, end]))
                if low < high:
                    yield _as_read(rows.slice(low, high - low), headers=headers)


def first_at(path: Path, milliseconds: int) -> int | None:
    """The offset of the first record of a file that has this time, or a later one."""
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            if _highest(file, group, "timestamp") >= milliseconds:
                rows = file.read_row_group(group, columns=["offset", "timestamp"])
                times = rows["timestamp"].cast(pa.int64()).to_numpy()
                at = int(np.argmax(times >= milliseconds))
                return int(rows["offset"][at].as_py())
    return None


def times_of(path: Path) -> tuple[int, int] | None:
    """The earliest and the latest time of a file's records, in milliseconds."""
    with _opened(path) as file:
        groups = range(file.num_row_groups)
        if not groups:
            return None
        return (
            min(_statistics(file, each, "timestamp").min_raw for each in groups),
            max(_statistics(file, each, "timestamp").max_raw for each in groups),
        )


def require_readable(path: Path) -> None:
    """Only its end is read, which one that was cut off does not have."""
    _opened(path).close()


def _opened(path: Path) -> parquet.ParquetFile:
    try:
        file = parquet.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            "a file of the archive cannot be read", where=path, got=str(error).splitlines()[0],
            hint="put the file back as it was written",
        ) from error  # fmt: skip
    if file.schema_arrow.names != SCHEMA.names:
        columns = ", ".join(file.schema_arrow.names)
        file.close()
        raise InputError(
            "a file of the archive has other columns", where=path, got=columns,
            hint=f"the archive's have {', '.join(SCHEMA.names)}",
        )  # fmt: skip
    return file


def _highest(file: parquet.ParquetFile, group: int, column: str) -> int:
    return int(_statistics(file, group, column).max_raw)


def _statistics(file: parquet.ParquetFile, group: int, column: str) -> Any:
    return file.metadata.row_group(group).column(SCHEMA.names.index(column)).statistics


def _kept(rows: pa.Table) -> pa.Table:
    kinds = pa.array(KINDS, pa.string()).take(rows[TIMESTAMP_TYPE].combine_chunks())
    times = rows["__timestamp"].cast(SCHEMA.field("timestamp").type)
    columns = [rows["__offset"], times, kinds, rows["__key"], rows["__value"], rows["__headers"]]
    return pa.table(columns, schema=SCHEMA)


def _as_read(rows: pa.Table, *, headers: bool) -> pa.Table:
    found = {
        "__value": rows["value"],
        "__key": rows["key"],
        "__timestamp": rows["timestamp"].cast(pa.int64()),
        "__offset": rows["offset"],
    }
    if headers:
        found["__headers"] = rows["headers"].cast(HEADERS)
    return pa.table(found)
