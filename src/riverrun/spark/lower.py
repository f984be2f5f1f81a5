"""From a program to one Spark query: source, exchange, writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from riverrun.durations import END
from riverrun.errors import ProgramError
from riverrun.kernels.chunks import Chunk, unpack
from riverrun.kernels.isolation import evaluated
from riverrun.kernels.lots import LotReader, counted
from riverrun.kernels.pages import status_chunk
from riverrun.kernels.steps import PLACE
from riverrun.plan.compile import FACT_TYPES
from riverrun.program import SparkSpec
from riverrun.schema import quoted
from riverrun.spark.exchange import PageProcessor
from riverrun.spark.source import (
    CHUNK_SCHEMA,
    Job,
    RiverrunSource,
    as_batches,
    lot_reader,
)

Functions = Mapping[str, Callable[[Any], Any]]


def start_query(
    session: SparkSession, job: Job, functions: Functions, *, checkpoint: Path, once: bool
) -> StreamingQuery:
    """Starts the query. `once` reads what there is and stops."""
    encoded = job.encoded()
    session.dataSource.register(RiverrunSource)
    chunks = session.readStream.format("riverrun").option("job", encoded).load()
    for step in job.program.spark_steps:
        chunks = _through_spark(chunks, step, functions[step.name], encoded)
    for level in range(job.program.levels):
        if level:
            chunks = chunks.mapInArrow(_forwarded(encoded), CHUNK_SCHEMA)
        chunks = chunks.groupBy("page").transformWithStateInPandas(
            PageProcessor(encoded, level), CHUNK_SCHEMA, "Append", "None"
        )
    writer = (
        chunks.writeStream.format("riverrun")
        .option("job", encoded)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .queryName(job.program.name)
    )
    return (writer.trigger(availableNow=True) if once else writer).start()


def _through_spark(
    chunks: DataFrame, step: SparkSpec, function: Callable[[Any], Any], encoded: str
) -> DataFrame:
    """Rows of the step's edge as columns, through the user's function, and packed again."""
    columns = _spark_columns(step, encoded)
    rows = chunks.where(chunks.edge == step.input).mapInArrow(
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
    return chunks.where(chunks.edge != step.input).union(packed)


def _spark_columns(step: SparkSpec, encoded: str) -> pa.Schema:
    columns = [
        *((c.name, c.type) for c in step.schema.columns),
        *zip(PLACE, FACT_TYPES, strict=True),
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
    edge: str, encoded: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = lot_reader(encoded)
        for batch in batches:
            yield from as_batches(_branched(reader, edge, pa.Table.from_batches([batch])))

    return pack_rows


def _forwarded(
    encoded: str,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Between two exchanges: rows for the next steps, packed by their new key."""

    def forward(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = [
            Chunk(*row)
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        yield from as_batches(list(lot_reader(encoded).forward(chunks)))

    return forward


def _branched(reader: LotReader, edge: str, rows: pa.Table) -> list[Chunk]:
    if rows.num_rows == 0:
        return []
    seq = int(rows["__pos"][0].as_py())
    found: list[Chunk] = []
    for branch in reader.program.branches_of(edge):
        made = rows
        if branch.query is not None:
            step = reader.program.step_at(branch.target)
            closed = step.last_closed(END) if step else END
            query = branch.when_closed(closed)
            made, failures = evaluated(reader.evaluator, branch, query, rows)
            found += reader.set_aside(failures, seq)
        made, count = counted(made)
        if step := reader.program.step_at(branch.target):
            found.append(status_chunk(0, rows={step.name: count}))
        found += reader.packed(branch.target, made, seq)
    return found
