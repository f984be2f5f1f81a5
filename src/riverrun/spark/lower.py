"""From a program to one Spark query: source, exchange, writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from riverrun.columns import PLACE
from riverrun.edges import Edge
from riverrun.errors import ProgramError
from riverrun.far import AnyPath
from riverrun.kernels.chunks import unpack
from riverrun.kernels.program import SparkSpec
from riverrun.schema import quoted
from riverrun.spark.exchange import PageProcessor
from riverrun.spark.source import (
    CHUNK_SCHEMA,
    Job,
    RiverrunSource,
    as_batches,
    as_chunks,
    lot_reader,
)

PARTITIONS = "spark.sql.shuffle.partitions"
PLACE_TYPES = ("TIMESTAMP", "BIGINT", "BIGINT")

Functions = Mapping[str, Callable[[Any], Any]]


def start_query(
    session: SparkSession, job: Job, functions: Functions, *, checkpoint: AnyPath, once: bool
) -> StreamingQuery:
    """Starts the query. `once` reads what there is and stops."""
    encoded = replace(job, checkpoint=checkpoint).encoded()
    session.dataSource.register(RiverrunSource)
    chunks = session.readStream.format("riverrun").option("job", encoded).load()
    for step in job.program.spark_steps:
        chunks = _through_spark(chunks, step, functions[step.name], encoded)
    for level in range(job.program.levels):
        if level:
            chunks = chunks.mapInArrow(_forwarded(encoded), CHUNK_SCHEMA)
        chunks = chunks.groupBy("page").transformWithState(
            PageProcessor(encoded, level), CHUNK_SCHEMA, "Append", "None"
        )
    writer = (
        chunks.writeStream.format("riverrun")
        .option("job", encoded)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .queryName(job.program.name)
    )
    with _writers(session, job):
        return (writer.trigger(availableNow=True) if once else writer).start()


@contextmanager
def _writers(session: SparkSession, job: Job) -> Iterator[None]:
    """A query takes its number of tasks after an exchange from its session as it starts."""
    before = session.conf.get(PARTITIONS)
    if job.program.one_writer:
        session.conf.set(PARTITIONS, "1")
    try:
        yield
    finally:
        session.conf.set(PARTITIONS, str(before))


def _through_spark(
    chunks: DataFrame, step: SparkSpec, function: Callable[[Any], Any], encoded: str
) -> DataFrame:
    """Rows of the step's edge as columns, through the user's function, and packed again."""
    columns = _spark_columns(step, encoded)
    rows = chunks.where(chunks.edge == str(step.input)).mapInArrow(
        _unpacked(columns), from_arrow_schema(columns)
    )
    made = function(rows)
    missing = [name for name in PLACE if name not in made.columns]
    if missing:
        raise ProgramError(
            f"the function {step.name!r} drops the column {missing[0]!r}",
            hint="keep the columns that start with two underscores, e.g. with df.select('*', …)",
        )
    packed = made.mapInArrow(_packed(step.output, encoded), CHUNK_SCHEMA)
    return chunks.where(chunks.edge != str(step.input)).union(packed)


def _spark_columns(step: SparkSpec, encoded: str) -> pa.Schema:
    columns = [
        *((c.name, c.type) for c in step.schema.columns),
        *zip(PLACE, PLACE_TYPES, strict=True),
    ]
    nulls = ", ".join(f"NULL::{type} AS {quoted(name)}" for name, type in columns)
    return lot_reader(encoded).evaluator.run(f"SELECT {nulls} LIMIT 0").schema


def _unpacked(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def unpack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("data").to_pylist():
                yield from unpack(data).to_arrow().cast(schema).to_batches()

    return unpack_rows


def _packed(
    edge: Edge, encoded: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = lot_reader(encoded)
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            yield from as_batches(list(reader.from_spark(edge, rows)))

    return pack_rows


def _forwarded(
    encoded: str,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Between two exchanges: rows for the next steps, packed by their new key."""

    def forward(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = [chunk for batch in batches for chunk in as_chunks(batch)]
        yield from as_batches(list(lot_reader(encoded).forward(chunks)))

    return forward
