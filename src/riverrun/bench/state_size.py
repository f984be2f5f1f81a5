"""How much state a riverrun program keeps, read batch by batch from its checkpoint."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from riverrun.kernels.chunks import unpack

LATEST = 12
"""Batches to read, the latest ones: Spark keeps a hundred."""


def per_batch(checkpoint: Path, last: int) -> list[dict[str, int]]:
    """Segments, their rows and their bytes, after each of the latest batches."""
    return [_after(checkpoint, batch) for batch in range(max(last - LATEST + 1, 0), last + 1)]


def _after(checkpoint: Path, batch: int) -> dict[str, int]:
    state = (
        SparkSession.builder.getOrCreate()
        .read.format("statestore")
        .option("stateVarName", "segments")
        .option("batchId", batch)
        .load(str(checkpoint))
    )
    segments = [bytes(row[0]) for row in state.select("user_map_value.data").collect()]
    return {
        "batch": batch,
        "segments": len(segments),
        "rows": sum(unpack(data).height for data in segments),
        "bytes": sum(len(data) for data in segments),
    }
