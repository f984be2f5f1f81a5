"""Rows of captured tables that were not kept as their source says that they were.

They are told and counted, and change nothing: the row after the change is right in any case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from riverrun.columns import BEFORE, GONE, POS
from riverrun.formats.debezium import OWN
from riverrun.formats.debezium_before import TOLD, rows_before
from riverrun.kernels.changes import begins
from riverrun.kernels.letters import as_json
from riverrun.schema import Schema

OTHERWISE = "kept otherwise than the source says it was before a change"
"""The cause that they are counted by."""


class Difference(NamedTuple):
    key: dict[str, Any]
    columns: list[str]


def differences(rows: pl.DataFrame, schema: Schema, key: list[str]) -> list[Difference]:
    """`rows` are sorted by key and place, those that are kept before those that change them. A row
    that nothing is known of is not compared: it may be from before what was read."""
    known = ~rows.select(begins(key)).to_series() & ~rows[GONE].shift().fill_null(True)
    places = (known & rows[BEFORE].is_not_null()).arg_true()
    if not len(places):
        return []
    now, was = rows[places], rows[places - 1]
    columns = Schema(tuple(each for each in schema.columns if each.name not in OWN))
    texts = now[BEFORE].to_arrow().cast(pa.string())
    before = pl.DataFrame(pl.from_arrow(rows_before(pa.chunked_array([texts]), columns)))
    keys = [name for name in key if name in schema]
    # of a key that is not the row's, the rest is not the row's either: an index that is no key
    same = pl.Series([True]).new_from_index(0, now.height)
    for name in keys:
        same &= before[name].cast(now.schema[name]).eq_missing(now[name])
    wrong = pl.DataFrame(
        {
            name: same
            & before[TOLD].list.contains(name)
            & before[name].cast(was.schema[name]).ne_missing(was[name])
            for name in columns.names
        }
    )
    otherwise = wrong.select(pl.any_horizontal(pl.all())).to_series().arg_true()
    otherwise = otherwise.gather(now[POS].gather(otherwise).arg_sort())
    return [
        Difference(key, [name for name, differs in each.items() if differs])
        for key, each in zip(
            now[otherwise].select(keys).iter_rows(named=True),
            wrong[otherwise].iter_rows(named=True),
            strict=True,
        )
    ]


def doubt(found: list[Difference]) -> str:
    first, others = found[0], len(found) - 1
    more = f"; and {others:,} more" if others else ""
    return f"{as_json(first.key)} was {OTHERWISE}: {', '.join(first.columns)}{more}"
