"""What each stored query costs, as this process has measured it."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.operators.search.arrays import Numbers
from riverrun.operators.search.collection import Collection
from riverrun.operators.search.matching import Matching
from riverrun.operators.search.spec import COSTS

MOST = 1_000
"""Queries that are told: the most expensive ones."""
Amounts = npt.NDArray[np.float64]
TYPES = {
    "VARCHAR": pl.String,
    "BOOLEAN": pl.Boolean,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
}


def note(collection: Collection, match: Matching, query: Numbers, told: int) -> None:
    """Adds what a lot of documents has cost; `told` are nanoseconds, for hits. What all candidates
    took together is divided among them."""
    size = collection.index.size
    met = (np.concatenate(match.candidates), np.concatenate(match.checked), query)
    counts = [np.bincount(each, minlength=size) for each in met]
    spent = zip(counts, (*match.nanoseconds, told), strict=True)
    shares = sum(each * (nanoseconds / max(each.sum(), 1)) for each, nanoseconds in spent)
    collection.spent = _sum(collection.spent, np.stack([counts[0], counts[2], shares]))
    collection.documents += match.docs.count


def _sum(before: Amounts, more: Amounts) -> Amounts:
    """Queries have come since it was noted before."""
    more[:, : before.shape[1]] += before
    return more


def told(collection: Collection) -> pl.DataFrame:
    """The queries that cost most, and in a row without a query all together."""
    candidates, hits, nanoseconds = collection.spent
    order = np.argsort(-nanoseconds, kind="stable")[:MOST].tolist()
    known = [(slot, own) for slot in order if (own := collection.stored[slot]) is not None]
    rows: list[tuple[Any, ...]] = [
        (own.name, own.owner, slot not in collection.loose, candidates[slot], hits[slot],
         nanoseconds[slot] / 1000)
        for slot, own in known
    ]  # fmt: skip
    rows.append((None, None, None, candidates.sum(), hits.sum(), nanoseconds.sum() / 1000))
    process = f"{socket.gethostname()}/{os.getpid()}"
    every = (collection.documents, len(collection.standing), len(collection.loose))
    types = {name: TYPES[type] for name, type in COSTS.items()}
    whole = [(process, *row, *every) for row in rows]
    return pl.DataFrame(whole, schema=types, orient="row", strict=False)
