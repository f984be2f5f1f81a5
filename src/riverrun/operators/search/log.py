"""The log of stored queries that every page keeps, and the collection that a process makes of it.

Pages are told the same changes in the same order, and keep them packed. What follows from a log is
known by its digest: one collection serves all pages of a process, and is changed as they are told
more. Whoever needs it as it was before makes it of the log again.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import polars as pl

from riverrun.control import Command
from riverrun.durations import BEGINNING
from riverrun.kernels.state import SegmentList
from riverrun.operators.search.collection import GARBAGE, Change, Collection
from riverrun.operators.search.query import Over

MOST = 4
"""Collections that a process has at hand."""
FASTEST = 1
"""The level of compression."""
ROW = {
    "__slot": pl.Int64,
    "__hash": pl.UInt64,
    "digest": pl.String,
    "entries": pl.Int64,
    "changes": pl.Binary,
}

Asked = tuple[Command, ...] | pl.DataFrame
"""Commands of the control log, or rows of a table of queries."""


@dataclass(frozen=True)
class Entry:
    """What is added to a log: all that is in it up to here follows from the digest."""

    digest: str
    entries: int
    data: bytes
    anew: bool = False
    """Whether it is in place of all before it."""


@dataclass(frozen=True)
class Told:
    """What changes came to: the entry for logs, if there is one, and what else is to be told."""

    entry: Entry | None
    answers: list[Command] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Rows of a table that are no queries, by number, and why."""


@dataclass
class Known:
    """A collection at the end of a log."""

    collection: Collection
    unfit: list[tuple[Change, Exception]]
    """Queries that came when the program was another one."""
    clock: int = BEGINNING
    """What ended before is gone: it serves nobody whose clock is not there yet."""

    def settle(self, clock: int) -> None:
        self.collection.settle(clock)
        self.clock = clock


_known: OrderedDict[Any, Known] = OrderedDict()
_told: OrderedDict[Any, tuple[Asked, Told]] = OrderedDict()
"""What was made of changes, for each page the same."""


class Log:
    """The log of one page."""

    def __init__(self, rows: SegmentList, over: Over) -> None:
        self.rows, self.over = rows, over
        last = rows.segments[-1].rows if rows.segments else None
        self.digest = "" if last is None else str(last["digest"][-1])
        self.entries = 0 if last is None else int(last["entries"][-1])

    def known(self, clock: int) -> Known:
        """What follows from the log."""
        key = (self.over, self.digest)
        if not _serves(key, clock):
            _keep(_known, key, self._made(clock))
        _known.move_to_end(key)
        return _known[key]

    def _made(self, clock: int) -> Known:
        """From what the process has made of a part of the log, when it last was told of it."""
        rows = pl.concat(
            [segment.rows for segment in self.rows.segments] or [pl.DataFrame(schema=ROW)]
        )
        found, begin = Known(Collection(self.over), []), 0
        for number, digest in reversed(list(enumerate(rows["digest"]))):
            if _serves((self.over, digest), clock):
                found, begin = _known.pop((self.over, digest)), number + 1
                break
        for data in rows["changes"][begin:]:
            for change in _unpacked(data):
                self._take(found, change)
        found.settle(clock)
        return found

    def _take(self, found: Known, change: Change) -> None:
        try:
            entered = change.query.entered(self.over, change.at) if change.query else None
        except Exception as error:
            found.unfit.append((change, error))
            return
        found.collection.take(change, entered)

    def changed(
        self, asked: Asked, clock: int, change: Callable[[Known], tuple[list[Change], Told]]
    ) -> Told:
        """Changes the collection as `asked`, once for all pages, and adds to this page's log."""
        key = (self.over, self.digest, clock)
        before, told = _told.get(key, (None, None))
        known_too = told and (not told.entry or _serves((self.over, told.entry.digest), clock))
        if told is None or not known_too or not _same(asked, before):
            known = self.known(clock)
            _known.pop((self.over, self.digest), None)
            changes, told = change(known)
            known.settle(clock)
            known.unfit = []
            told = Told(self._entry(changes, known.collection), told.answers, told.refused)
            _keep(_told, key, (asked, told))
            after = told.entry.digest if told.entry else self.digest
            _keep(_known, (self.over, after), known)
        if told.entry is not None:
            self._add(told.entry)
        return told

    def _entry(self, changes: Sequence[Change], found: Collection) -> Entry | None:
        if not changes:
            return None
        entries = self.entries + len(changes)
        if entries > 2 * len(found.standing) + GARBAGE and not found.leaving:
            whole = list(found.whole())
            data = _packed(whole)
            return Entry(_digest("", data), len(whole), data, anew=True)
        data = _packed(changes)
        return Entry(_digest(self.digest, data), entries, data)

    def _add(self, entry: Entry) -> None:
        if entry.anew:
            for segment in list(self.rows.segments):
                self.rows.remove(segment)
        last = self.rows.segments[-1].rows["__slot"][-1] + 1 if self.rows.segments else 0
        made = [[last], [0], [entry.digest], [entry.entries], [entry.data]]
        self.rows.append(pl.DataFrame(dict(zip(ROW, made, strict=True)), schema=ROW), -1)
        self.digest, self.entries = entry.digest, entry.entries


def _serves(key: Any, clock: int) -> bool:
    return key in _known and _known[key].clock <= clock


def _same(one: Asked, other: Asked | None) -> bool:
    if isinstance(one, pl.DataFrame) and isinstance(other, pl.DataFrame):
        return one.equals(other)
    return isinstance(one, tuple) and isinstance(other, tuple) and one == other


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    while len(cache) > MOST:
        cache.popitem(last=False)


def _packed(changes: Sequence[Change]) -> bytes:
    text = json.dumps([each.encoded() for each in changes], ensure_ascii=False)
    return zlib.compress(text.encode(), FASTEST)


def _unpacked(data: bytes) -> list[Change]:
    return [Change.decoded(each) for each in json.loads(zlib.decompress(data))]


def _digest(before: str, data: bytes) -> str:
    return sha256(before.encode() + data).hexdigest()[:24]
