"""How much state a riverrun program keeps, read batch by batch from its checkpoint."""

from __future__ import annotations

from pathlib import Path

from riverrun.kernels.chunks import unpack
from riverrun.runtime.stored import StoredState

LATEST = 12
"""Batches to read, the latest ones: a hundred are kept."""


def per_batch(checkpoint: Path, last: int) -> list[dict[str, int]]:
    """Segments, their rows and their bytes, after each of the latest batches."""
    return [_after(checkpoint, batch) for batch in range(max(last - LATEST + 1, 0), last + 1)]


def _after(checkpoint: Path, batch: int) -> dict[str, int]:
    stored = StoredState(checkpoint, batch + 1)
    segments = [data for each in stored.exchanges() for _, _, data in stored.segments(each)]
    return {
        "batch": batch,
        "segments": len(segments),
        "rows": sum(unpack(data).height for data in segments),
        "bytes": sum(len(data) for data in segments),
    }
