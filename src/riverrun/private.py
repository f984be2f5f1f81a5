"""Folders and files that only their owner reads: checkpoints, settings and logs hold secrets.

Of far ones it is the file system's matter who reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

from riverrun.far import AnyPath, FarPath

UMASK = 0o077
FOLDER = 0o700
FILE = 0o600

P = TypeVar("P", bound=AnyPath)


def folder(path: P) -> P:
    """Makes it, or closes it to others if it is there. Far ones are made with their first file."""
    if isinstance(path, FarPath):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER, exist_ok=True)
    with suppress(PermissionError):  # another's, or of a file system that knows no such thing
        path.chmod(FOLDER)
    return path


@contextmanager
def by_default() -> Iterator[None]:
    """What the block makes, and what it starts makes, is for the owner only."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


def opened(path: Path, mode: str) -> IO[str]:
    """`open`, for writing text."""
    return open(path, mode, opener=_opener)


def opened_bytes(path: Path) -> IO[bytes]:
    """The same, for bytes."""
    return open(path, "wb", opener=_opener)


def write(path: AnyPath, text: str, *, durable: bool = False) -> None:
    if isinstance(path, FarPath):
        path.write_text(text)
        return
    with opened(path, "w") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def replace(path: AnyPath, text: str, *, durable: bool = False) -> None:
    """The file is as it was, or has all of the text; if `durable`, also when the machine fails."""
    if isinstance(path, FarPath):
        path.write_text(text)
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write(draft, text, durable=durable)
    os.replace(draft, path)
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """A file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opener(path: str, flags: int) -> int:
    number = os.open(path, flags, FILE)
    with suppress(PermissionError):
        os.fchmod(number, FILE)
    return number
