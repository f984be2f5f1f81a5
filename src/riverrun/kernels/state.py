"""Page state, log-structured: segments of rows, the newest wins. A batch writes what it changed.

A segment is sorted by window and hash of the key, so that looking up a few keys among millions is a
binary search, and the rows of the windows that end now are one slice. When there are several of
about one size they are merged into one, so a row is rewritten a logarithm of times; a segment of
which most has ended is written anew without it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.durations import BEGINNING, END
from riverrun.kernels.chunks import pack, unpack
from riverrun.kernels.page_files import digest

Rows = npt.NDArray[np.intp]
"""Numbers of rows."""
Fitted = Callable[[pl.DataFrame], pl.DataFrame]
"""Makes rows that an earlier version of a program kept what this one keeps."""


def as_it_is(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


FAN = 4
"""So many segments of about one size (within this factor) are merged into one."""


class Store(Protocol):
    """Where a page's segments live: files of the checkpoint, or a dictionary in the driver."""

    def get(self, segment: str) -> bytes: ...
    def put(self, segment: str, data: bytes) -> None: ...
    def remove(self, segment: str) -> None: ...


@dataclass(eq=False)
class Segment:
    """Rows sorted by `__slot` and `__hash`."""

    id: str
    rows: pl.DataFrame

    @cached_property
    def size(self) -> int:
        """Bytes, with the index and the order in time that may be worked out."""
        return int(self.rows.estimated_size()) + 16 * self.rows.height

    @cached_property
    def dead(self) -> int:
        return int(self.rows["__dead"].sum()) if "__dead" in self.rows.columns else 0

    @cached_property
    def windows(self) -> npt.NDArray[np.int64]:
        return np.unique(self._window)

    @cached_property
    def _window(self) -> npt.NDArray[np.int64]:
        return self.rows["__slot"].to_numpy()

    @cached_property
    def _index(self) -> npt.NDArray[np.uint64]:
        return self._places(np.searchsorted(self.windows, self._window), self._hashes)

    @cached_property
    def _hashes(self) -> npt.NDArray[np.uint64]:
        return self.rows["__hash"].to_numpy()

    @cached_property
    def _by_time(self) -> npt.NDArray[np.intp]:
        return np.argsort(self.rows["__until"].to_numpy(), kind="stable")

    @cached_property
    def _times(self) -> npt.NDArray[np.int64]:
        """When rows end, in order: the window for rows without an `__until`."""
        if "__until" not in self.rows.columns:
            return self._window
        return np.asarray(self.rows["__until"].to_numpy()[self._by_time])

    @property
    def last_time(self) -> int:
        return int(self._times[-1])

    def ended(self, closed: int) -> int:
        """How many rows have ended."""
        return int(np.searchsorted(self._times, closed, side="right"))

    def live(self, closed: int) -> pl.DataFrame:
        if "__until" in self.rows.columns:
            return self.rows.filter(self.rows["__until"] > closed)
        return between(self.rows, closed, END)

    def due(self, low: int, high: int) -> pl.DataFrame:
        """Rows with low < `__until` <= high."""
        start, stop = np.searchsorted(self._times, [low, high], side="right")
        return self.rows[self._by_time[start:stop]]

    def _places(self, rank: Any, hashes: Any) -> npt.NDArray[np.uint64]:
        """Window and hash as one sortable number: the window's rank in the high bits."""
        bits = len(self.windows).bit_length()
        high = rank.astype(np.uint64) << np.uint64(64 - bits)
        return np.asarray(high | (hashes >> np.uint64(bits)), dtype=np.uint64)

    def find(self, wanted: Wanted, among: Rows) -> tuple[Rows, Rows]:
        """Pairs of row numbers, in `wanted` and here, that have the same window and key. Only those
        `among` them are looked for."""
        window = wanted.windows[among]
        rank = np.searchsorted(self.windows, window)
        known = rank < len(self.windows)
        known[known] = self.windows[rank[known]] == window[known]
        candidates = among[known]
        sought = self._places(rank[known], wanted.hashes[candidates])
        start = np.searchsorted(self._index, sought, side="left")
        counts = np.searchsorted(self._index, sought, side="right") - start
        theirs = np.repeat(candidates, counts)
        first_of = np.repeat(np.cumsum(counts) - counts, counts)
        ours = np.repeat(start, counts) + np.arange(len(theirs)) - first_of
        same = wanted.hashes[theirs] == self._hashes[ours]
        for key in wanted.keys if len(same) else ():
            left, right = key.gather(theirs), self.rows[key.name].gather(ours)
            same &= left.eq_missing(right).to_numpy()
        return theirs[same], ours[same]


def between(rows: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Rows of windows with low < window <= high, of rows sorted by window."""
    start, end = np.searchsorted(rows["__slot"].to_numpy(), [low, high], side="right")
    return rows.slice(int(start), int(end - start))


@dataclass(frozen=True)
class Wanted:
    """Windows and keys that are looked for, as columns: what is done with a few rows by Polars' own
    queries costs more than all the rest."""

    windows: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    keys: list[pl.Series]

    @classmethod
    def of(cls, rows: pl.DataFrame, keys: tuple[str, ...]) -> Wanted:
        windows, hashes = (rows[name].to_numpy() for name in ("__slot", "__hash"))
        return cls(windows, hashes, [rows[key] for key in keys])


@dataclass
class SegmentList:
    """Rows of one step in one page: the oldest and largest segment first.

    Rows end with their window, or at their `__until` if they have one. A row with `__dead` marks
    that the one it replaces is gone.
    """

    keys: tuple[str, ...]
    segments: list[Segment] = field(default_factory=list)
    within_key: tuple[str, ...] | None = ()
    """What tells rows of one window and key apart; a newer row replaces an older one. None: rows
    are facts, and none replaces another."""
    together: bool = False
    """Whether a key has several rows, which are replaced together."""
    added: list[Segment] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    closed: int = BEGINNING
    """Rows that end up to here have ended, though some may still be kept."""

    @property
    def _match(self) -> list[str]:
        return ["__hash", *self.keys]

    def have(self, columns: Mapping[str, pl.DataType]) -> None:
        """Rows that were kept when there were other columns get these; what is new is null."""
        for segment in self.segments:
            if segment.rows.columns != list(columns):
                known = set(segment.rows.columns)
                segment.rows = segment.rows.select(
                    name if name in known else pl.lit(None, type).alias(name)
                    for name, type in columns.items()
                )

    def lookup(self, wanted: pl.DataFrame) -> pl.DataFrame | None:
        """The standing rows with the windows and keys wanted, each once."""
        if not self.segments or not wanted.height:
            return None
        sought, found = Wanted.of(wanted, self.keys), []
        left, alone = np.arange(wanted.height), np.ones(wanted.height, np.bool_)
        for segment in reversed(self.segments):
            theirs, ours = segment.find(sought, left)
            if len(ours):
                # a row that is wanted twice is given once, where it was wanted first
                found.append(segment.rows[ours[np.sort(np.unique(ours, return_index=True)[1])]])
            if len(ours) and self.within_key == ():
                alone[theirs] = False
                left = left[alone[left]]
                if not len(left):
                    break
        return self._standing(found[::-1]) if found else None

    def between(self, low: int, high: int) -> list[pl.DataFrame]:
        """Rows of windows with low < window <= high, the newest last; a row may be replaced."""
        parts = (between(segment.rows, low, high) for segment in self.segments)
        return [part for part in parts if part.height]

    def standing(self, closed: int = BEGINNING) -> pl.DataFrame | None:
        """All standing rows of windows after `closed`."""
        parts = self.between(closed, END)
        if not parts:
            return None
        rows = self.newest(parts)
        return rows.filter(~pl.col("__dead")) if "__dead" in rows.columns else rows

    def due(self, low: int, high: int) -> pl.DataFrame | None:
        """The standing rows with low < `__until` <= high."""
        parts = [segment.due(low, high) for segment in self.segments]
        found = [part for part in parts if part.height]
        if not found:
            return None
        # a newer row of the same key may end at another time
        standing = self.lookup(pl.concat(found).select("__slot", *self._match))
        assert standing is not None
        return standing.filter(pl.col("__until").is_between(low, high, closed="right"))

    def last_time(self) -> int:
        return max((segment.last_time for segment in self.segments), default=BEGINNING)

    def size(self) -> tuple[int, int]:
        """Rows and bytes, with those that are replaced or have ended and are not merged yet."""
        rows = sum(segment.rows.height for segment in self.segments)
        return rows, sum(segment.size for segment in self.segments)

    def living(self) -> int:
        """How many rows have not ended."""
        return sum(each.rows.height - each.ended(self.closed) for each in self.segments)

    def newest(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        """The rows that no later part replaces."""
        if len(parts) == 1:
            return parts[0]
        rows = pl.concat(parts)
        if self.within_key is None:
            return rows
        if self.together:
            return self._newest_together(parts)
        identity = ["__slot", *self._match, *self.within_key]
        return rows.unique(subset=identity, keep="last", maintain_order=True)

    def _newest_together(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        """All rows of each key of the last part that has any."""
        identity = ["__slot", *self._match]
        standing = [parts[-1]]
        for part in reversed(parts[:-1]):
            newer = pl.concat([each.select(identity) for each in standing])
            standing.insert(0, part.join(newer, on=identity, how="anti", nulls_equal=True))
        return pl.concat(standing)

    def _standing(self, parts: list[pl.DataFrame]) -> pl.DataFrame:
        # rows of a window and key that stand alone were taken from the newest segment only
        rows = pl.concat(parts) if self.within_key == () else self.newest(parts)
        return rows.filter(~pl.col("__dead")) if "__dead" in rows.columns else rows

    def append(self, rows: pl.DataFrame | None, closed: int) -> None:
        """Adds sorted rows that replace older ones; forgets those that ended up to `closed`."""
        self.closed = max(self.closed, closed)
        for segment in list(self.segments):
            ended = segment.ended(closed)
            if ended == segment.rows.height:
                self.remove(segment)
            elif 2 * ended > segment.rows.height:
                self._merge([segment], closed)
        if rows is not None and rows.height:
            self._add(rows, len(self.segments))
        while self._many_alike():
            self._merge(self.segments[-FAN:], closed)
        if self._half_dead():
            self._merge(list(self.segments), closed)

    def _many_alike(self) -> bool:
        sizes = [segment.rows.height for segment in self.segments[-FAN:]]
        return len(sizes) == FAN and max(sizes) <= FAN * min(sizes)

    def _half_dead(self) -> bool:
        """A mark and the row that it replaces are of no use once they are merged."""
        dead = sum(segment.dead for segment in self.segments)
        return dead > 0 and 4 * dead >= sum(segment.rows.height for segment in self.segments)

    def _merge(self, segments: list[Segment], closed: int) -> None:
        """Makes one segment of several, without what has ended."""
        place = self.segments.index(segments[0])
        rows = self.newest([segment.live(closed) for segment in segments])
        if place == 0 and "__dead" in rows.columns:
            rows = rows.filter(~pl.col("__dead"))
        for segment in segments:
            self.remove(segment)
        if rows.height:
            self._add(rows.sort("__slot", "__hash"), place)

    def _add(self, rows: pl.DataFrame, place: int) -> None:
        segment = Segment("", rows)  # it is named when it is written
        self.segments.insert(place, segment)
        self.added.append(segment)

    def remove(self, segment: Segment) -> None:
        self.segments.remove(segment)
        if segment in self.added:
            self.added.remove(segment)
        else:
            self.removed.append(segment.id)


@dataclass
class SegmentCache:
    """Segments that this process has at hand, bounded in bytes; the least used leave first.

    A page visits whichever worker Spark chooses, so a miss on the latest few is normal, and so is
    that another worker has replaced what is held here.
    """

    limit: int
    held: OrderedDict[tuple[str, str], Segment] = field(default_factory=OrderedDict)
    by_scope: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    size: int = 0

    def get(self, scope: str, segment: str, store: Store, fitted: Fitted = as_it_is) -> Segment:
        key = (scope, segment)
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        found = Segment(segment, fitted(unpack(store.get(segment))))
        self.keep(scope, found)
        return found

    def keep(self, scope: str, segment: Segment) -> None:
        self.held[scope, segment.id] = segment
        self.by_scope[scope].add(segment.id)
        self.size += segment.size
        while self.size > self.limit and len(self.held) > 1:
            self.drop(*next(iter(self.held)))

    def drop(self, scope: str, segment: str) -> None:
        held = self.held.pop((scope, segment), None)
        self.by_scope[scope].discard(segment)
        self.size -= held.size if held else 0

    def retain(self, scope: str, segments: set[str]) -> None:
        """Drops what is no longer among a scope's segments."""
        for gone in self.by_scope[scope] - segments:
            self.drop(scope, gone)


@dataclass
class Names:
    """Of the segments that a page writes in a batch, which is where they are found. Run again, the
    batch gives the same names to the same rows."""

    batch: int
    given: int = 0

    def of(self, data: bytes) -> str:
        self.given += 1
        return f"{self.batch}-{self.given}-{digest(data)}"


def save(
    state: SegmentList, store: Store, cache: SegmentCache, scope: str, names: Names
) -> list[str]:
    """Writes what changed, and returns the ids that the page's head must list."""
    for segment in state.removed:
        store.remove(segment)
        cache.drop(scope, segment)
    for added in state.added:
        data = pack(added.rows, compression="lz4")
        added.id = names.of(data)
        store.put(added.id, data)
        cache.keep(scope, added)
    return [segment.id for segment in state.segments]
