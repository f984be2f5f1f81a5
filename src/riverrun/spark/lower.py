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
from riverrun.spark.exchange import Exchange
from riverrun.spark.job import Job, job_of, lot_reader
from riverrun.spark.rows import CHUNK_SCHEMA, TASK, as_batches, chunks_of
from riverrun.spark.source import RiverrunSource

PARTITIONS = "spark.sql.shuffle.partitions"
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Java that is made for each plan pays with many rows: a batch of ours has few, unless they go
through the user's own functions as columns."""
PLACE_TYPES = ("TIMESTAMP", "BIGINT", "BIGINT")

Functions = Mapping[str, Callable[[Any], Any]]


def start_query(
    session: SparkSession, job: Job, functions: Functions, *, checkpoint: AnyPath, once: bool
) -> StreamingQuery:
    """Starts the query. `once` reads what there is and stops."""
    with _settings(session, job):
        parts = job.parts or int(session.conf.get(PARTITIONS) or 1)
        job = replace(job, checkpoint=checkpoint, parts=parts)
        encoded = job.encoded()
        writer = (
            _computed(session, job, functions, encoded)
            .writeStream.format("riverrun")
            .option("job", encoded)
            .option("checkpointLocation", str(checkpoint))
            .outputMode("append")
            .queryName(job.program.name)
        )
        return (writer.trigger(availableNow=True) if once else writer).start()


def _computed(session: SparkSession, job: Job, functions: Functions, encoded: str) -> DataFrame:
    """All up to the last exchange, which is visited by who writes what comes of it."""
    session.dataSource.register(RiverrunSource)
    chunks = session.readStream.format("riverrun").option("job", encoded).load()
    for step in job.program.spark_steps:
        chunks = _through_spark(chunks, step, functions[step.name], encoded)
    for level in range(job.program.levels):
        if level:
            chunks = chunks.mapInArrow(_forwarded(encoded, level - 1), CHUNK_SCHEMA)
        chunks = chunks.repartition(TASK)
    return chunks


@contextmanager
def _settings(session: SparkSession, job: Job) -> Iterator[None]:
    """A query takes them from its session as it starts: its number of tasks after an exchange, and
    whether Java is made for its plans."""
    wanted = {} if job.program.spark_steps else dict(FEW_ROWS)
    if job.program.one_writer:
        wanted[PARTITIONS] = "1"
    before = {name: str(session.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


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
            yield from as_batches(reader.from_spark(edge, rows), job_of(encoded))

    return pack_rows


def _forwarded(
    encoded: str, level: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """An exchange that is not the last: rows for the next steps, packed by their new key."""

    def forward(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = list(Exchange(encoded, level).computed(chunks_of(batches)))
        yield from as_batches(lot_reader(encoded).forward(chunks), job_of(encoded))

    return forward
