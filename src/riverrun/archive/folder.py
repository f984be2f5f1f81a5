"""The folder of a topic's archive. Names of files are all that is noted of what it has.

A file has the records of a range of offsets, first and last in its name: those of one partition
follow each other without a hole. A range that retention took before it was archived has a file of
its own, without records, that ends with `.gap`. So a file that somebody has deleted is told from
records that were never there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from riverrun import private
from riverrun.errors import AlreadyRunning, InputError, TopicError

NOTE, LOCK = "topic.json", ".lock"
PARTITION = re.compile(r"partition=(\d+)")
RANGE = re.compile(r"(\d{20})-(\d{20})\.(parquet|gap)")


class Piece(NamedTuple):
    """The offsets from `start` to before `end`, as records or as a gap."""

    start: int
    end: int
    path: Path

    @property
    def gap(self) -> bool:
        return self.path.suffix == ".gap"


@dataclass(frozen=True)
class TopicArchive:
    root: Path
    topic: str

    @property
    def folder(self) -> Path:
        return self.root / self.topic

    def partition(self, number: int) -> Path:
        return self.folder / f"partition={number}"

    def exists(self) -> bool:
        return (self.folder / NOTE).exists()

    def require(self, identity: str) -> None:
        """It is of this topic, and of no other that had the name before."""
        try:
            noted = json.loads((self.folder / NOTE).read_text())["id"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                "the folder is no archive of a topic", where=self.folder,
                got=f"{NOTE} cannot be read: {error}", hint="give another folder, or move it away",
            ) from error  # fmt: skip
        if noted != identity:
            raise TopicError(
                f"the topic {self.topic!r} was deleted and made again",
                where=self.folder,
                got=f"the archive is of the topic with the id {noted}, this one has {identity}",
                hint="keep that archive elsewhere: move its folder, or give another folder",
            )

    def begin(self, identity: str) -> None:
        """Makes the folder, or checks that it is of this topic."""
        if self.exists():
            self.require(identity)
            return
        if any(PARTITION.fullmatch(each.name) for each in self.folder.iterdir()):
            self.require(identity)  # which says what is missing
        note = json.dumps({"topic": self.topic, "id": identity}, indent=1)
        with writing(self.folder):
            put(self.folder / NOTE, f"{note}\n".encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else may write meanwhile. What a process left that was killed is removed."""
        with self._lock() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AlreadyRunning(
                    f"{self.topic!r} is being archived already", where=self.folder,
                    hint="end the other one, or give another folder with --to",
                ) from error  # fmt: skip
            for draft in self.folder.glob("partition=*/.*"):
                draft.unlink()
            yield

    def _lock(self) -> IO[str]:
        with writing(self.folder):
            if not self.folder.exists():
                private.folder(self.folder)
            return private.opened(self.folder / LOCK, "a")

    def partitions(self) -> list[int]:
        found = (PARTITION.fullmatch(each.name) for each in self.folder.iterdir())
        return sorted(int(each[1]) for each in found if each)

    def pieces(self, number: int) -> list[Piece]:
        """What there is of a partition, in order and without a hole."""
        folder = self.partition(number)
        if not folder.exists():
            return []
        names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
        found = [_piece(folder / name) for name in names]
        for before, after in pairwise(found):
            if after.start != before.end:
                raise InputError(
                    "files of the archive overlap" if after.start < before.end
                    else "a file of the archive is missing",
                    where=folder, got=f"{after.path.name} comes after {before.path.name}",
                    hint="put it back; if it is lost, note that with an empty file "
                    f"{name_of(before.end, after.start, 'gap')}",
                )  # fmt: skip
        return found

    def note_gap(self, number: int, start: int, end: int) -> Piece:
        told = {"noted_at": datetime.now(UTC).isoformat(timespec="seconds")}
        path = self.partition(number) / name_of(start, end, "gap")
        with writing(path.parent):
            path.parent.mkdir(exist_ok=True)
            put(path, f"{json.dumps(told)}\n".encode())
        return Piece(start, end, path)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A folder that cannot be written is the user's choice. A full disk is told as everywhere."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            "the folder of the archive cannot be written", where=folder, got=error.strerror,
            hint="give another folder with --to",
        ) from error  # fmt: skip


def archived_topics(root: Path) -> list[str]:
    return sorted(each.parent.name for each in root.glob(f"*/{NOTE}"))


def name_of(start: int, end: int, kind: str) -> str:
    return f"{start:020}-{end - 1:020}.{kind}"


def _piece(path: Path) -> Piece:
    found = RANGE.fullmatch(path.name)
    if not found or int(found[2]) < int(found[1]):
        raise InputError(
            "a file does not belong into the archive", where=path,
            hint="its files are named by first and last offset; move it elsewhere",
        )  # fmt: skip
    return Piece(int(found[1]), int(found[2]) + 1, path)


def runs_of_records(pieces: list[Piece]) -> tuple[tuple[int, int], ...]:
    """Offsets from which and to which there is no gap."""
    found: list[tuple[int, int]] = []
    for each in pieces:
        if each.gap:
            continue
        if found and found[-1][1] == each.start:
            found[-1] = (found[-1][0], each.end)
        else:
            found.append((each.start, each.end))
    return tuple(found)


def put(path: Path, content: bytes) -> None:
    """The whole file or none of it, also when the machine stops."""
    draft = path.with_name(f".{path.name}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    moved(draft, path)


def moved(draft: Path, path: Path) -> None:
    """A file that is whole gets its name, for good."""
    os.replace(draft, path)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
