"""All queries that are stored for a step: by name, and in the index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from riverrun.durations import BEGINNING
from riverrun.operators.search.index import Entered, Index
from riverrun.operators.search.query import Over, Stored

GARBAGE = 1_000
"""Queries that may be gone before the index is made anew, beside as many as there are."""


class Standing(NamedTuple):
    """A query that stands."""

    slot: int
    """Its number in the index."""
    version: int
    id: int
    """The offset of the command that brought it."""
    begins: int


@dataclass(frozen=True)
class Change:
    """A query that comes, or for None goes, at a time."""

    name: str
    query: Stored | None
    at: int = BEGINNING
    version: int = 1
    id: int = 0

    def encoded(self) -> list[Any]:
        rest = self.query.encoded()[1:] if self.query else []
        return [self.name, self.at, self.version, self.id, *rest]

    @classmethod
    def decoded(cls, parts: list[Any]) -> Change:
        name, at, version, offset, *rest = parts
        return cls(name, Stored(name, *rest) if rest else None, at, version, offset)


class Collection:
    """Changes are taken one by one, and settled together: the index is arrays."""

    def __init__(self, over: Over) -> None:
        self.over = over
        self.standing: dict[str, Standing] = {}
        self._start()

    def _start(self) -> None:
        self.index = Index(self.over.searched)
        self.stored: list[Stored | None] = []
        """By number; None of those that are gone."""
        self.loose: set[int] = set()
        """Of those that stand, the ones that need no word."""
        self.leaving: list[tuple[int, int]] = []
        """Queries that end, and the time at which they do."""
        self._new: list[Entered] = []
        self.said = said([])
        """What is told of each query with its hits."""
        self.spent, self.documents = np.zeros((3, 0)), 0
        """Candidates, hits and nanoseconds of each query, as this process has seen them; and how
        many documents it has seen."""

    def take(self, change: Change, entered: Entered | None) -> None:
        """A change, with the query that it brings, read."""
        before = self.standing.pop(change.name, None)
        if before is not None:
            self.leaving.append((before.slot, change.at))
            self.loose.discard(before.slot)
        if entered is not None:
            slot = len(self.stored)
            self.standing[change.name] = Standing(slot, change.version, change.id, change.at)
            self.stored.append(change.query)
            self._new.append(entered)
            if not entered.needs_a_word:
                self.loose.add(slot)

    def settle(self, clock: int) -> None:
        """Takes what came into the index, and what has ended out of it."""
        self._settle_new()
        for slot, at in self.leaving:
            self.index.ends[slot] = at
        over = [slot for slot, at in self.leaving if at <= clock]
        self.leaving = [each for each in self.leaving if each[1] > clock]
        if over:
            self.index.drop(np.array(over, np.int64))
            for slot in over:
                self.stored[slot] = None
        if len(self.stored) > 2 * len(self.standing) + GARBAGE and not self.leaving:
            self._start_over()

    def _start_over(self) -> None:
        """Without those that are gone: they are in the way of the others."""
        frequent = self.index
        whole = list(self.whole())
        self.standing = {}
        self._start()
        for change in whole:
            assert change.query is not None
            self.take(change, change.query.entered(self.over, change.at))
        self._settle_new()
        self.index.know_as(frequent)

    def _settle_new(self) -> None:
        if self._new:
            self.index.add(self._new)
            new = [each for each in self.stored[self.said.height :] if each is not None]
            self.said = pl.concat([self.said, said(new)], rechunk=True)
            self._new = []

    def whole(self) -> Iterator[Change]:
        """All that stands, as changes."""
        for name, (slot, version, offset, begins) in self.standing.items():
            yield Change(name, self.stored[slot], begins, version, offset)


def said(queries: list[Stored]) -> pl.DataFrame:
    return pl.DataFrame(
        [(each.name, each.owner, each.metadata, each.watch, each.mark) for each in queries],
        schema={
            "query": pl.String, "owner": pl.String, "metadata": pl.String, "__watch": pl.Boolean,
            "__mark": pl.UInt64,
        },
        orient="row",
    )  # fmt: skip
