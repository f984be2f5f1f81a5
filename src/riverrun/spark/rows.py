"""Chunks as rows of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from riverrun.edges import Edge
from riverrun.kernels.chunks import Chunk
from riverrun.spark.job import Job
from riverrun.spark.spreading import keys_of_tasks

TASK = "task"
"""The column that rows are dealt by."""
CHUNK_SCHEMA = f"{TASK} int, page int, edge string, seq long, data binary"
ARROW_SCHEMA = pa.schema(
    [
        (TASK, pa.int32()),
        ("page", pa.int32()),
        ("edge", pa.string()),
        ("seq", pa.int64()),
        ("data", pa.binary()),
    ]
)


def as_batches(chunks: Iterable[Chunk], job: Job) -> Iterator[pa.RecordBatch]:
    tasks = keys_of_tasks(job.program.pages, job.parts)
    rows = [(tasks[c.page], c.page, str(c.edge), c.seq, c.data) for c in chunks]
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, ARROW_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns[1:])
        for page, edge, seq, data in zip(*columns, strict=True):
            yield Chunk(page, Edge.parse(edge), seq, data)
