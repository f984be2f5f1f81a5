"""The results that engines wrote, as tables to compare."""

from __future__ import annotations

import polars as pl

from riverrun.bench.load import CLOSING
from riverrun.errors import JobError
from riverrun.kafka.browse import Browser

TIMES = ("window_start", "window_end", "at", "clicked")


def table(client: dict[str, str], topic: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Every record of a topic, without those of closing users."""
    found = rows(client, topic, columns)
    return found.filter(~pl.col("user").str.starts_with(CLOSING))


def rows(client: dict[str, str], topic: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Every record of a topic."""
    with Browser(client, topic) as browser:
        values = [message.value() for message in browser.read(browser.earliest)]
    written = [value for value in values if value is not None]
    if not written or len(written) < len(values):
        raise JobError("a benchmark wrote nothing, or took results back", where=topic)
    found = pl.read_ndjson(b"\n".join(written), infer_schema_length=None).select(columns)
    times = [pl.col(name).str.to_datetime("%+") for name in TIMES if name in columns]
    return found.with_columns(times)


def differing(ours: pl.DataFrame, theirs: pl.DataFrame) -> int:
    """How many rows one has and the other has not, repeated ones included."""
    count = pl.len().cast(pl.Int64)
    counted = [
        rows.group_by(rows.columns).agg(count.alias("n")).with_columns(pl.col("n") * sign)
        for rows, sign in ((ours, 1), (theirs.cast(ours.schema), -1))
    ]
    both = pl.concat(counted).group_by(ours.columns).agg(pl.col("n").sum())
    return int(both["n"].abs().sum())
