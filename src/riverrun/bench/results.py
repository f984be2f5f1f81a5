"""The results that engines wrote, as tables to compare."""

from __future__ import annotations

import polars as pl

from riverrun.bench.load import CLOSING
from riverrun.connectors.browse import Browser

TIMES = {"window_start", "window_end", "at"}


def table(client: dict[str, str], topic: str, columns: list[str]) -> pl.DataFrame:
    """Every record of a topic, in the order of its columns; without those of closing users."""
    with Browser(client, topic) as browser:
        values = [m.value() for m in browser.read(browser.earliest)]
    rows = pl.read_ndjson(b"\n".join(values)) if values else pl.DataFrame(schema=columns)
    times = [pl.col(name).cast(pl.String).str.to_datetime("%+").alias(name) for name in TIMES]
    rows = rows.select(columns).with_columns(t for t in times if t.meta.output_name() in columns)
    return rows.filter(~pl.col("user").str.starts_with(CLOSING)).sort(columns)


def differing(ours: pl.DataFrame, theirs: pl.DataFrame) -> int:
    """How many rows one has and the other has not, repeated ones included."""
    count = pl.len().cast(pl.Int64)
    counted = [
        rows.group_by(rows.columns).agg(count.alias("n")).with_columns(pl.col("n") * sign)
        for rows, sign in ((ours, 1), (theirs.cast(dict(ours.schema)), -1))
    ]
    both = pl.concat(counted).group_by(ours.columns).agg(pl.col("n").sum())
    return int(both["n"].abs().sum())
