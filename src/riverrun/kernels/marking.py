"""The kernel that marks rows whose key was seen before, by a Bloom filter of fixed size."""

from __future__ import annotations

import polars as pl

from riverrun.kernels.bloom import BloomFilter
from riverrun.kernels.steps import PLACE, Batch, Result, StepState
from riverrun.program import Marking


def advance(step: Marking, state: StepState, batch: Batch) -> Result:
    if batch.rows is None:
        return Result()
    kept = state.rows()
    rows = batch.rows.sort(PLACE)
    known = kept.segments[-1].rows["__filter"][0] if kept.segments else None
    bloom = BloomFilter.from_bytes(known) if known else BloomFilter(step.capacity, step.error)
    seen = bloom.seen(rows["__hash"].to_numpy())
    filter_row = {"__window": [0], "__hash": [0], "__filter": [bloom.to_bytes()]}
    types = {"__window": pl.Int64, "__hash": pl.UInt64, "__filter": pl.Binary}
    for segment in list(kept.segments):
        kept.remove(segment)
    kept.append(pl.DataFrame(filter_row, schema=types), -1)
    marked = rows.drop("__window", "__hash").with_columns(pl.Series(step.column, seen))
    return Result(streams={"": [marked]})
