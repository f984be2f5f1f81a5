"""Page state, log-structured: segments of rows, the newest wins. A batch writes what it changed.

A segment is sorted by window and hash of the key, so that looking up a few keys among millions is a
binary search, and the rows of the windows that end now are one slice. When there are several of
about one size they are merged into one, so a row is rewritten a logarithm of times.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.event_time import END
from riverrun.kernels.chunks import pack, unpack

FAN = 4
"""So many segments of about one size (within this factor) are merged into one."""


class Store(Protocol):
    """Where a page's segments live: Spark's state store, or a dictionary in the driver."""

    def get(self, segment: str) -> bytes: ...
    def put(self, segment: str, data: bytes) -> None: ...
    def remove(self, segment: str) -> None: ...


@dataclass(eq=False)
class Segment:
    """Rows sorted by `__window` and `__hash`."""

    id: str
    rows: pl.DataFrame

    @cached_property
    def size(self) -> int:
        return int(self.rows.estimated_size())

    @property
    def last_window(self) -> int:
        return int(self.windows[-1])

    @cached_property
    def windows(self) -> npt.NDArray[np.int64]:
        return np.unique(self._window)

    @cached_property
    def _window(self) -> npt.NDArray[np.int64]:
        return self.rows["__window"].to_numpy()

    @cached_property
    def _index(self) -> npt.NDArray[np.uint64]:
        return self._places(
            np.searchsorted(self.windows, self._window), self.rows["__hash"].to_numpy()
        )

    def _places(self, rank: Any, hashes: Any) -> npt.NDArray[np.uint64]:
        """Window and hash as one sortable number: the window's rank in the high bits."""
        bits = len(self.windows).bit_length()
        high = rank.astype(np.uint64) << np.uint64(64 - bits)
        return np.asarray(high | (hashes >> np.uint64(bits)), dtype=np.uint64)

    def find(self, wanted: pl.DataFrame, keys: list[str]) -> tuple[Any, Any]:
        """Row numbers in `wanted`, and of the rows here with the same window and key."""
        window = wanted["__window"].to_numpy()
        rank = np.searchsorted(self.windows, window)
        known = rank < len(self.windows)
        known[known] = self.windows[rank[known]] == window[known]
        candidates = np.flatnonzero(known)
        sought = self._places(rank[candidates], wanted["__hash"].to_numpy()[candidates])
        place = np.searchsorted(self._index, sought)
        found_wanted, found_here = [], []
        while len(candidates):
            inside = place < len(self._index)
            inside[inside] = self._index[place[inside]] == sought[inside]
            candidates, place, sought = candidates[inside], place[inside], sought[inside]
            same = _equal(wanted[candidates], self.rows.select(keys)[place], keys)
            found_wanted.append(candidates[same])
            found_here.append(place[same])
            # two keys with one hash stand side by side: look at the next row
            candidates, place, sought = candidates[~same], place[~same] + 1, sought[~same]
        if not found_wanted:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(found_wanted), np.concatenate(found_here)


def between(rows: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Rows of windows with low < window <= high, of rows sorted by window."""
    start, end = np.searchsorted(rows["__window"].to_numpy(), [low, high], side="right")
    return rows.slice(int(start), int(end - start))


def _equal(left: pl.DataFrame, right: pl.DataFrame, keys: list[str]) -> npt.NDArray[np.bool_]:
    if left.height == 0:
        return np.empty(0, np.bool_)
    same = [left[key].eq_missing(right[key]).to_numpy() for key in keys]
    return np.asarray(np.logical_and.reduce(same))


@dataclass
class SegmentList:
    """The state of one step in one page: the oldest and largest segment first."""

    keys: tuple[str, ...]
    segments: list[Segment] = field(default_factory=list)
    added: list[Segment] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def _identity(self) -> list[str]:
        return ["__hash", *self.keys]

    def lookup(self, wanted: pl.DataFrame) -> pl.DataFrame | None:
        """The newest rows with the windows and keys wanted; each at most once."""
        if not self.segments:
            return None
        known = np.concatenate([segment.windows for segment in self.segments])
        held = np.isin(wanted["__window"].to_numpy(), known)
        if not held.any():
            return None
        found = []
        remaining = wanted.filter(pl.Series(held)).select("__window", *self._identity)
        remaining = remaining.unique(maintain_order=True)
        for segment in reversed(self.segments):
            if remaining.height == 0:
                break
            theirs, ours = segment.find(remaining, self._identity)
            if len(ours):
                found.append(segment.rows[ours])
                left = np.ones(remaining.height, np.bool_)
                left[theirs] = False
                remaining = remaining.filter(pl.Series(left))
        return pl.concat(found) if found else None

    def between(self, low: int, high: int) -> list[pl.DataFrame]:
        """Rows of windows with low < window <= high, the newest last; a key may come again."""
        parts = (between(segment.rows, low, high) for segment in self.segments)
        return [part for part in parts if part.height]

    def newest(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        if len(parts) == 1:
            return parts[0]
        identity = ["__window", *self._identity]
        return pl.concat(parts).unique(subset=identity, keep="last", maintain_order=True)

    def append(self, rows: pl.DataFrame | None, closed: int) -> None:
        """Adds sorted rows that replace older ones, and forgets windows up to `closed`."""
        for segment in [s for s in self.segments if s.last_window <= closed]:
            self._remove(segment)
        if rows is not None and rows.height:
            self._add(rows)
        while self._many_alike():
            last = self.segments[-FAN:]
            for segment in last:
                self._remove(segment)
            live = [between(segment.rows, closed, END) for segment in last]
            self._add(self.newest(live).sort("__window", "__hash"))

    def _many_alike(self) -> bool:
        sizes = [segment.rows.height for segment in self.segments[-FAN:]]
        return len(sizes) == FAN and max(sizes) <= FAN * min(sizes)

    def _add(self, rows: pl.DataFrame) -> None:
        segment = Segment(os.urandom(8).hex(), rows)
        self.segments.append(segment)
        self.added.append(segment)

    def _remove(self, segment: Segment) -> None:
        self.segments.remove(segment)
        if segment in self.added:
            self.added.remove(segment)
        else:
            self.removed.append(segment.id)


@dataclass
class SegmentCache:
    """Segments that this process has at hand, bounded in bytes; the least used leave first.

    A page visits whichever worker Spark chooses, so a miss on the latest few is normal.
    """

    limit: int
    held: OrderedDict[tuple[str, str], Segment] = field(default_factory=OrderedDict)
    size: int = 0

    def get(self, scope: str, segment: str, store: Store) -> Segment:
        key = (scope, segment)
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        found = Segment(segment, unpack(store.get(segment)))
        self.keep(scope, found)
        return found

    def keep(self, scope: str, segment: Segment) -> None:
        self.held[scope, segment.id] = segment
        self.size += segment.size
        while self.size > self.limit and len(self.held) > 1:
            _, oldest = self.held.popitem(last=False)
            self.size -= oldest.size

    def drop(self, scope: str, segment: str) -> None:
        held = self.held.pop((scope, segment), None)
        self.size -= held.size if held else 0


def save(state: SegmentList, store: Store, cache: SegmentCache, scope: str) -> list[str]:
    """Writes what changed, and returns the ids that the page's head must list."""
    for segment in state.removed:
        store.remove(segment)
        cache.drop(scope, segment)
    for added in state.added:
        store.put(added.id, pack(added.rows, compression="lz4"))
        cache.keep(scope, added)
    return [segment.id for segment in state.segments]
