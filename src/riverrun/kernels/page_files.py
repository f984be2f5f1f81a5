"""Pages in files: what each task of an exchange has written of its pages, batch by batch.

A file is of one batch and one part of the pages: the segments that were added to them, and the
heads of all of them. It is there as a whole, and is not changed once its batch is committed; run
again, a batch replaces its own files by the same. So a batch starts from the heads that the one
before has left, and whoever copies the folder of a query has its state.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import IO
from zlib import crc32

from riverrun import private
from riverrun.errors import CheckpointError
from riverrun.far import AnyPath, FarPath, FarPieces

FOLDER = "state"
"""In that of Spark's query, so that whoever copies the one has the other."""
NAME = re.compile(r"(\d+)-(\d+)\.pages")
"""Of a file: the number that the batch was logged with, and the part."""
RETAINED = 100
"""Batches that can be gone back to: as many as Spark keeps of its own logs."""
SWEEP = 20
"""Batches from one look for files that nobody needs to the next."""
OPEN = 16
"""Files that a process keeps open."""
END = struct.Struct(">IQ")
"""What a file ends with: the checksum and the length of its index."""

RESTORE = "restore a backup, or start over with `riverrun run … --fresh`"

Heads = dict[int, bytes]
"""By page."""


class PartFile:
    """A file that is there: its heads, and its segments by page and id."""

    def __init__(self, path: AnyPath) -> None:
        try:
            self.content = _content(path)
            index = json.loads(_index(self.content))
        except (ValueError, struct.error) as error:
            raise _damaged(path, error) from error
        self.heads: Heads = {int(page): text.encode() for page, text in index["heads"].items()}
        self.places = {(page, name): (start, end) for page, name, start, end in index["segments"]}

    def segment(self, page: int, name: str) -> bytes:
        start, end = self.places[page, name]
        return self.content[start:end]


def _index(content: mmap.mmap | FarPieces) -> bytes:
    end = len(content) - END.size
    checksum, length = END.unpack(content[max(end, 0) :])
    index = content[end - length : end] if length <= end else b""
    if crc32(index) != checksum:
        raise ValueError("its index is not what was written")
    return index


def _content(path: AnyPath) -> mmap.mmap | FarPieces:
    if isinstance(path, FarPath):
        return path.pieces()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


class PartWriter:
    """A file that is being written, segment by segment; it is there once it is finished."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.draft = None if isinstance(path, FarPath) else _draft(path)
        self.out: IO[bytes] = BytesIO() if self.draft is None else private.opened_bytes(self.draft)
        self.places: list[tuple[int, str, int, int]] = []
        self.size = 0

    def put(self, page: int, name: str, data: bytes) -> None:
        self.out.write(data)
        self.places.append((page, name, self.size, self.size + len(data)))
        self.size += len(data)

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self.out.close()
        if self.draft is not None:
            self.draft.unlink(missing_ok=True)

    def finish(self, heads: Heads) -> None:
        texts = {page: head.decode() for page, head in heads.items()}
        index = json.dumps({"heads": texts, "segments": self.places}).encode()
        self.out.write(index + END.pack(crc32(index), len(index)))
        if self.draft is not None:
            self.out.close()
            os.replace(self.draft, self.path)  # type: ignore[arg-type]
        else:
            assert isinstance(self.path, FarPath)
            self.out.seek(0)
            self.path.copy(self.out)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@dataclass
class PageFiles:
    """The files of one exchange. Whoever writes them keeps what it has written at hand."""

    folder: AnyPath
    known: dict[int, list[int]] = field(default_factory=dict)
    """Parts by batch, as they were at the last look."""
    opened: OrderedDict[tuple[int, int], PartFile] = field(default_factory=OrderedDict)

    def writer(self, batch: int, part: int) -> PartWriter:
        if isinstance(self.folder, Path) and not self.folder.exists():
            private.folder(self.folder.parent)
            private.folder(self.folder)
        return PartWriter(self._path(batch, part))

    def heads(self, batch: int, pages: Collection[int] | None = None, part: int = 0) -> Heads:
        """What a batch has left of pages, or of all; `part` is where they may well be."""
        found: Heads = {}
        for each in self._parts(batch, part):
            found |= each.heads
            if pages is not None and found.keys() >= set(pages):
                break
        return found

    def segment(self, page: int, name: str, part: int = 0) -> bytes:
        found = self._file_of(page, name, part).segment(page, name)
        if not name.endswith(digest(found)):
            raise _damaged(self.folder, f"rows {name} of page {page} are not what was written")
        return found

    def require(self, batch: int) -> None:
        """All that the next batch begins with is there."""
        heads = self.heads(batch)
        if not heads:
            raise not_whole(self.folder, f"nothing of batch {batch}")
        for page, head in heads.items():
            for name in _listed(head):
                self._file_of(page, name)

    def _file_of(self, page: int, name: str, part: int = 0) -> PartFile:
        for each in self._parts(_batch_of(name), part):
            if (page, name) in each.places:
                return each
        raise not_whole(self.folder, f"rows {name} of page {page} are missing")

    def sweep(self, batch: int, pages: int) -> None:
        """Removes what no batch since this one needs. A segment that is no longer listed never is
        again: of files that are older, those of its heads are left."""
        heads = self.heads(batch)
        if len(heads) < pages:
            return
        needed = {_batch_of(name) for head in heads.values() for name in _listed(head)}
        for number, part in self._there():
            if number < batch and number not in needed:
                self._path(number, part).unlink(missing_ok=True)
                self.opened.pop((number, part), None)
        self.known.clear()

    def remove_after(self, batch: int) -> None:
        """What later batches have written, and what somebody had begun to write."""
        for number, part in self._there():
            if number > batch:
                self._path(number, part).unlink(missing_ok=True)
        for each in self.folder.glob(".*.tmp") if isinstance(self.folder, Path) else ():
            each.unlink(missing_ok=True)

    def parts(self, batch: int) -> list[int]:
        """By their numbers."""
        return sorted(part for number, part in self._there() if number == batch)

    def _parts(self, batch: int, first: int) -> Iterator[PartFile]:
        """The files of a batch, that of a part before the others."""
        with suppress(FileNotFoundError):
            yield self._open(batch, first)
        if batch not in self.known:
            self.known = defaultdict(list)
            for number, part in self._there():
                self.known[number].append(part)
        for part in self.known.get(batch, ()):
            if part != first:
                yield self._open(batch, part)

    def _open(self, batch: int, part: int) -> PartFile:
        place = (batch, part)
        if place not in self.opened:
            self.opened[place] = PartFile(self._path(batch, part))
            while len(self.opened) > OPEN:
                self.opened.popitem(last=False)
        self.opened.move_to_end(place)
        return self.opened[place]

    def _there(self) -> list[tuple[int, int]]:
        if not self.folder.exists():
            return []
        found = (NAME.fullmatch(each.name) for each in self.folder.iterdir())
        return [(int(each[1]), int(each[2])) for each in found if each]

    def _path(self, batch: int, part: int) -> AnyPath:
        return self.folder / f"{batch}-{part}.pages"


def digest(data: bytes) -> str:
    """What the name of a segment ends with, so that damaged rows are told from those written."""
    return blake2b(data, digest_size=6).hexdigest()


def not_whole(folder: AnyPath, got: str) -> CheckpointError:
    return CheckpointError(
        "the state in the checkpoint is not whole", where=folder, got=got, hint=RESTORE
    )


def _damaged(path: AnyPath, got: object) -> CheckpointError:
    return CheckpointError("a file of the state is damaged", where=path, got=str(got), hint=RESTORE)


def place(query: AnyPath, level: int) -> PageFiles:
    """Of an exchange of a query."""
    return PageFiles(query / FOLDER / str(level))


def places(query: AnyPath) -> dict[int, PageFiles]:
    """Of all exchanges of a query."""
    folder = query / FOLDER
    levels = sorted(int(each.name) for each in folder.iterdir()) if folder.exists() else []
    return {level: place(query, level) for level in levels}


def _batch_of(segment: str) -> int:
    """The one that has written it: see `Names`."""
    return int(segment.partition("-")[0])


def _listed(head: bytes) -> Iterator[str]:
    for lists in json.loads(head)["segments"].values():
        for names in lists.values():
            yield from names
