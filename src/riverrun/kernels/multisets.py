"""Multisets: the values of a group with how often each is there, as a list of struct(value, n).

They are exact, and rows can be taken out of them again. All groups of a frame are worked on at
once: their lists are laid end to end, with the number of the group beside each item.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

GROUP = "__group"

Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


def appended(lists: pl.Expr) -> pl.Expr:
    """Merges by laying lists end to end; `settled` sums equal values."""
    return lists.list.explode(keep_nulls=False, empty_as_null=False).implode()


def items(lists: pl.Series) -> pl.DataFrame:
    """The items of all lists as rows, each with the number of its group."""
    groups = np.repeat(np.arange(len(lists), dtype=np.int64), lengths(lists))
    flat = lists.list.explode(keep_nulls=False, empty_as_null=False)
    return flat.struct.unnest().with_columns(pl.Series(GROUP, groups))


def lengths(lists: pl.Series) -> Counts:
    return lists.list.len().to_numpy().astype(np.int64)


def gathered(rows: pl.DataFrame, groups: int, name: str) -> pl.Series:
    """Rows, sorted by group, as one list of structs per group; the opposite of `items`."""
    ends = np.searchsorted(rows[GROUP].to_numpy(), np.arange(groups), side="right")
    return _lists(rows.drop(GROUP).to_struct("item"), ends).alias(name)


def _lists(flat: pl.Series, ends: Counts) -> pl.Series:
    """The lists that end at these places."""
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
    return pl.Series(pa.LargeListArray.from_arrays(offsets, flat.to_arrow()))


def settled(lists: pl.Series) -> pl.Series:
    """Equal values summed, those that are gone left out, sorted by value."""
    return gathered(summed(items(lists)), len(lists), lists.name)


def summed(rows: pl.DataFrame) -> pl.DataFrame:
    weights = [name for name in rows.columns if name not in (GROUP, "value")]
    totals = rows.group_by(GROUP, "value").agg(pl.col(weights).sum())
    # rows that came and went may differ in weight, so none is left out before its weight is gone
    return totals.filter(pl.any_horizontal(pl.col(weights) != 0)).sort(GROUP, "value")


def smallest(lists: pl.Expr) -> pl.Expr:
    return lists.list.first().struct.field("value")


def largest(lists: pl.Expr) -> pl.Expr:
    return lists.list.last().struct.field("value")


def every(lists: pl.Series) -> pl.Series:
    """Each value as often as it is there, in order of value."""
    rows = items(lists)
    times = np.maximum(rows["n"].to_numpy(), 0)
    values = rows["value"].gather(np.repeat(np.arange(rows.height), times))
    groups = np.repeat(rows[GROUP].to_numpy(), times)
    ends = np.searchsorted(groups, np.arange(len(lists)), side="right")
    return _lists(values, ends).alias(lists.name)


def top(lists: pl.Series, k: int, *, whole: bool = False) -> pl.Series:
    """The k values with the highest count, or weight if they have one; equal ones by value. A
    `whole` weight is one of 64 bits in the end, or null."""
    rows = items(lists).filter(pl.col("n") > 0)
    by = "w" if "w" in rows.columns else "n"
    ranked = rows.sort(GROUP, by, "value", descending=[False, True, False])
    count = pl.col(by).cast(pl.Int64, strict=False) if whole else pl.col(by)
    chosen = ranked.select(GROUP, "value", count.alias("count"))
    groups = chosen[GROUP].to_numpy()
    starts = np.searchsorted(groups, groups)
    first = chosen.filter(pl.Series(np.arange(len(groups)) - starts < k))
    return gathered(first, len(lists), lists.name)


def binned(lists: pl.Series, edges: tuple[float, ...]) -> pl.Series:
    """How many values are in each bin, of multisets of the bins' numbers."""
    bins, rows = len(edges) + 1, items(lists)
    counts = np.zeros(len(lists) * bins, np.int64)
    np.add.at(
        counts, rows[GROUP].to_numpy() * bins + rows["value"].to_numpy(), rows["n"].to_numpy()
    )
    bounds = pl.DataFrame({"lower": [None, *edges], "upper": [*edges, None]})
    every = np.tile(np.arange(bins), len(lists))
    made = bounds[every].with_columns(count=pl.Series(counts))
    return _lists(made.to_struct("bin"), np.arange(1, len(lists) + 1) * bins).alias(lists.name)


def percentile(lists: pl.Series, fractions: tuple[float, ...], *, single: bool) -> pl.Series:
    """Percentiles with linear interpolation, as a list or a number; null without values."""
    rows = items(lists)
    reached = np.cumsum(rows["n"].to_numpy())
    ends = np.concatenate([[0], reached])[np.cumsum(lengths(lists))]
    starts = np.concatenate([[0], ends])[:-1]
    known = ends > starts
    found = np.zeros((len(lists), len(fractions)))
    if known.any():
        values = rows["value"].cast(pl.Float64).to_numpy()
        found[known] = _interpolated(values, reached, starts[known], ends[known] - 1, fractions)
    if single:
        made = pl.Series(found[:, 0])
    else:
        sizes = np.arange(1, len(lists) + 1) * len(fractions)
        made = _lists(pl.Series(found.ravel()), sizes)
    return made.zip_with(pl.Series(known), pl.Series([None], dtype=made.dtype)).alias(lists.name)


def _interpolated(
    values: Numbers, reached: Counts, first: Counts, last: Counts, fractions: tuple[float, ...]
) -> Numbers:
    """Percentiles of the groups whose items are those from `first` to `last`, by running count."""
    columns = []
    for fraction in fractions:
        place = fraction * (last - first)
        low = np.floor(place).astype(np.int64)
        lower = values[np.searchsorted(reached, first + low, side="right")]
        next_one = np.minimum(first + low + 1, last)
        upper = values[np.searchsorted(reached, next_one, side="right")]
        share = place - low
        # neither the difference of infinite values is a number, nor zero times one of them
        with np.errstate(invalid="ignore"):
            between = lower * (1 - share) + upper * share
        columns.append(np.where((share == 0) | (lower == upper), lower, between))
    return np.column_stack(columns)
