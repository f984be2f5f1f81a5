"""The files of a folder in the order in which they were found, and which rows are in each.

A file is noted, for good, before a batch is planned that reads of it: a batch that is run again
finds the same rows at the same offsets.
"""

from __future__ import annotations

import glob
import json
import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from riverrun import private
from riverrun.errors import InputError
from riverrun.far import AnyPath, FarPath
from riverrun.sources.folders.rows import ENDINGS, index

SETTLED = 1.0
"""Seconds that a file has not changed before it is read: it may be being written."""
PASSED_OVER = re.compile(r"[._]|.*(\.tmp|\.part|~)$", re.IGNORECASE)
"""Names of files that are not for readers yet."""


@dataclass(frozen=True)
class Entry:
    path: str
    size: int
    changed_at: int
    first: int
    """The offset of its first row."""
    rows: int
    places: list[int] = field(default_factory=list)


@dataclass
class Ledger:
    """Of one stream. The driver adds to it; tasks only read."""

    file: AnyPath
    entries: list[Entry] = field(default_factory=list)
    read_up_to: int = 0

    def load(self) -> None:
        """What was noted since the last time; a line that was cut off by a crash was never used."""
        size = _size(self.file)
        if size < self.read_up_to:  # the application has started over
            self.entries, self.read_up_to = [], 0
        if not size:
            return
        for line in self._new_lines():
            if not line.endswith(b"\n"):
                break
            self.entries.append(Entry(**json.loads(line)))
            self.read_up_to += len(line)

    def _new_lines(self) -> Iterator[bytes]:
        if isinstance(self.file, FarPath):
            yield from self.file.read_bytes()[self.read_up_to :].splitlines(keepends=True)
            return
        with self.file.open("rb") as file:
            file.seek(self.read_up_to)
            yield from file

    @property
    def end(self) -> int:
        return self.entries[-1].first + self.entries[-1].rows if self.entries else 0

    def look(self, pattern: str, *, settled: float = SETTLED) -> None:
        """Notes the files that are new."""
        self.load()
        known = {each.path for each in self.entries}
        new = [path for path in _files(pattern) if str(path) not in known]
        latest = time.time() - settled
        made: list[Entry] = []
        end = self.end
        for path in new:
            about = path.stat()
            if about.st_mtime <= latest:
                rows, places = _counted(path)
                made.append(Entry(str(path), about.st_size, about.st_mtime_ns, end, rows, places))
                end += rows
        if made:
            self._note(made)

    def _note(self, entries: Sequence[Entry]) -> None:
        text = "".join(json.dumps(asdict(each)) + "\n" for each in entries)
        if isinstance(self.file, FarPath):  # nothing can be added there: it is written anew
            before = self.file.read_bytes()[: self.read_up_to] if self.read_up_to else b""
            self.file.write_bytes(before + text.encode())
        else:
            private.folder(self.file.parent)
            with private.opened(self.file, "a") as file:
                file.truncate(self.read_up_to)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        self.load()

    def pieces(self, start: int, end: int) -> Iterator[tuple[Entry, int, int]]:
        """The files that hold the rows from one offset to another, and which of theirs."""
        number = bisect_right(self.entries, start, key=lambda each: each.first) - 1
        for each in self.entries[max(number, 0) :]:
            low, high = max(start - each.first, 0), min(end - each.first, each.rows)
            if each.first >= end:
                break
            if low < high:
                yield each, low, high


def _size(file: AnyPath) -> int:
    if isinstance(file, FarPath):
        return file.size()
    return file.stat().st_size if file.exists() else 0


def _files(pattern: str) -> list[Path]:
    found = (Path(each) for each in glob.glob(pattern, recursive=True))
    return sorted(
        each for each in found if each.is_file() and not PASSED_OVER.fullmatch(each.name[:1])
        and not PASSED_OVER.fullmatch(each.name) and each.suffix.lower() in ENDINGS
    )  # fmt: skip


def _counted(path: Path) -> tuple[int, list[int]]:
    try:
        return index(path)
    except (OSError, ValueError) as error:
        raise InputError(
            "a file cannot be read", where=path, got=str(error).splitlines()[0],
            hint="mend it, or take it out of the folder",
        ) from error  # fmt: skip
