"""What a batch brings to each group, in a few facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.columns import HASH, OP, PLACE, REVISION
from riverrun.formats import JSON
from riverrun.formats.json_types import object_of
from riverrun.formats.query import run
from riverrun.kernels.changes import net
from riverrun.operators.alert.spec import OVER, AlertSpec
from riverrun.operators.alert.templates import LONGEST_TEXT

LONGEST_ROW = 100_000
"""Characters of a row that is told: of a longer one there is the key."""

Identity = tuple[int, str]
"""Of a group: the hash of its key, and its text."""


@dataclass(frozen=True)
class Arrived:
    key: tuple[Any, ...]
    """The hash, and the values of the key's columns."""
    added: int
    """Rows that are new to the group."""
    difference: int
    """How many rows it has more than before, or less."""
    over: bool | None
    """Of a stream: whether the last row says that the cause is gone."""
    row: str | None
    """The latest row that does not say so, as JSON."""
    mark: str
    """Tells it apart from what came with the same tick before."""


def identity(key: tuple[Any, ...]) -> Identity:
    # not the values themselves: one that is not a number is unlike itself
    return key[0], repr(key[1:])


def arrived(step: AlertSpec, rows: pl.DataFrame | None) -> dict[Identity, Arrived]:
    if rows is None:
        return {}
    found = _changes(step, rows) if step.table_key else _facts(step, rows)
    key = [HASH, *step.keys]
    texts = _texts(step, found.rows, found.groups["__last"])
    facts = found.groups.select("__added", "__difference", OVER, "__mark").rows()
    keys = found.groups.select(key).rows()
    return {
        identity(each): Arrived(each, added, difference, over, text, mark)
        for each, (added, difference, over, mark), text in zip(keys, facts, texts, strict=True)
    }


@dataclass(frozen=True)
class _Grouped:
    rows: pl.DataFrame
    groups: pl.DataFrame
    """`__last` is the number of the latest row."""


def _facts(step: AlertSpec, rows: pl.DataFrame) -> _Grouped:
    rows = rows.sort(PLACE).with_row_index("__number")
    fires = ~pl.col(OVER)
    place = pl.concat_str([pl.col(name).filter(fires).first() for name in PLACE[1:]], separator="/")
    groups = rows.group_by([HASH, *step.keys], maintain_order=True).agg(
        fires.sum().cast(pl.Int64).alias("__added"),
        fires.sum().cast(pl.Int64).alias("__difference"),
        pl.col(OVER).last(),
        place.fill_null("").alias("__mark"),
        pl.col("__number").filter(fires).last().alias("__last"),
    )
    return _Grouped(rows, groups)


def _changes(step: AlertSpec, rows: pl.DataFrame) -> _Grouped:
    """A row that only changes is none that is added."""
    key = list(dict.fromkeys((HASH, *step.keys, *step.table_key)))
    rows = rows.filter(~pl.col(OVER))
    if rows.height:
        rows = net(rows, key, step.entering.names)
    rows = rows.sort([*key, OP]).with_row_index("__number")
    there = pl.col(OP) > 0
    fresh = there & (pl.col(OP).min().over(key) > 0)
    groups = rows.with_columns(fresh.alias("__fresh")).group_by(
        [HASH, *step.keys], maintain_order=True
    ).agg(
        pl.col("__fresh").sum().cast(pl.Int64).alias("__added"),
        pl.col(OP).cast(pl.Int64).sum().alias("__difference"),
        pl.lit(None, pl.Boolean).first().alias(OVER),
        pl.col(REVISION).filter("__fresh").first().cast(pl.String).fill_null("").alias("__mark"),
        pl.col("__number").filter(there).last().alias("__last"),
    )  # fmt: skip
    return _Grouped(rows, groups)


def _texts(step: AlertSpec, rows: pl.DataFrame, numbers: pl.Series) -> list[str | None]:
    """Rows as JSON objects, by their numbers."""
    names = step.entering.names
    chosen = numbers.drop_nulls()
    if chosen.is_empty():
        return [None] * len(numbers)
    short = rows[chosen].select(names).with_columns(pl.col(pl.String).str.head(LONGEST_TEXT))
    table = JSON.shown(short.to_arrow())
    # a topic takes no row that is longer: what it is of is told all the same
    query = f"""
        SELECT CASE WHEN length(whole) <= {LONGEST_ROW} THEN whole ELSE keys END AS row
        FROM (SELECT {object_of(names)} AS whole, {object_of(step.keys)} AS keys FROM rows)
    """
    texts = iter(run(query, rows=table)["row"].to_pylist())
    return [None if number is None else next(texts) for number in numbers.to_list()]
