"""The rows at hand in a page: those that a batch released, and earlier ones of the same keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.changes import begins
from riverrun.kernels.sql import Evaluator
from riverrun.kernels.trying import tried
from riverrun.operators.rules.filters import Atom, Kind

Numbers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
NEW = "__new"


@dataclass
class Values:
    """A value of each row, and whether there is one."""

    values: npt.NDArray[np.generic]
    known: Truths | None
    """None: always."""


@dataclass
class AtHand:
    """Rows by key and then by time."""

    rows: pl.DataFrame
    begins: Numbers
    """Where each key begins; the last is the end of all."""
    at: Numbers
    new: Truths
    conditions: dict[str, Truths] = field(default_factory=dict)
    """Which rows hold a condition that names no parameter."""
    computed: dict[str, pl.Series] = field(default_factory=dict)
    """What is compared with parameters, where it is more than a column."""
    taken: dict[tuple[str, Kind], Values] = field(default_factory=dict)
    codes: dict[tuple[int, str], Numbers] = field(default_factory=dict)
    """Of limits and a value: which of the limits it is."""

    @cached_property
    def plain(self) -> pl.DataFrame:
        """The rows, as expressions see them."""
        return self.rows.drop(NEW, "__hash")

    @property
    def keys(self) -> int:
        return len(self.begins) - 1

    def value(self, atom: Atom) -> Values:
        key = (atom.value, atom.kind)
        if key not in self.taken:
            column = self.rows[atom.column] if atom.column else self.computed[atom.value]
            self.taken[key] = _numbers(column, atom.kind)
        return self.taken[key]

    def texts(self, atom: Atom) -> pl.Series:
        return self.rows[atom.column] if atom.column else self.computed[atom.value]

    def evaluate(self, evaluator: Evaluator, conditions: list[str], values: list[str]) -> None:
        """Computes what all rules share, once. What fails on a row does not hold there."""
        made = {f"c{n}": text for n, text in enumerate(conditions)}
        made |= {f"v{n}": text for n, text in enumerate(values)}
        if not made:
            return
        found = evaluated(evaluator, made, self.plain)
        for n, text in enumerate(conditions):
            self.conditions[text] = found[f"c{n}"].fill_null(False).to_numpy()
        for n, text in enumerate(values):
            self.computed[text] = found[f"v{n}"]


def evaluated(evaluator: Evaluator, made: dict[str, str], rows: pl.DataFrame) -> pl.DataFrame:
    """Expressions of rules by name: null where they fail."""
    return pl.DataFrame(pl.from_arrow(tried(evaluator, made, rows.to_arrow())))


def _numbers(column: pl.Series, kind: Kind) -> Values:
    known = None if not column.null_count() else column.is_not_null().to_numpy()
    match kind:
        case "whole":
            return Values(column.cast(pl.Int64).fill_null(0).to_numpy(), known)
        case "real":
            return Values(column.cast(pl.Float64).fill_null(0).to_numpy(), known)
        case _:
            raise TypeError(kind)  # texts have codes: see `groups`


def by_key(rows: pl.DataFrame, keys: list[str]) -> tuple[pl.DataFrame, Numbers]:
    """Rows sorted by key and time, and where each key begins."""
    hashes, at = rows["__hash"].to_numpy(), rows[TIME].to_numpy()
    places = (rows["__sub"].to_numpy(), rows["__pos"].to_numpy())
    order = np.lexsort((at, hashes))
    tied = (hashes[order][1:] == hashes[order][:-1]) & (at[order][1:] == at[order][:-1])
    rows = rows[np.lexsort((*places, at, hashes)) if tied.any() else order]
    first = rows.select(begins(["__hash", *keys])).to_series().to_numpy()
    starts = rows.select(begins(["__hash"])).to_series().to_numpy()
    if first.sum() > starts.sum():  # two keys with one hash
        rows = rows.sort("__hash", *keys, TIME, "__pos", "__sub")
        first = rows.select(begins(["__hash", *keys])).to_series().to_numpy()
    return rows, np.append(np.flatnonzero(first), rows.height)


def first_from(at: Numbers, low: Numbers, high: Numbers, wanted: Numbers) -> Numbers:
    """Of each range of rows in the order of time, the first at or after a time; else its end."""
    low, high = low.copy(), high.copy()
    while True:
        left = np.flatnonzero(low < high)
        if not len(left):
            return low
        middle = (low[left] + high[left]) // 2
        before = at[middle] < wanted[left]
        low[left[before]] = middle[before] + 1
        high[left[~before]] = middle[~before]
