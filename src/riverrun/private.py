"""Folders and files that only their owner reads: checkpoints, settings and logs hold secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

UMASK = 0o077
FOLDER = 0o700
FILE = 0o600


def folder(path: Path) -> Path:
    """Makes it, or closes it to others if it is there."""
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


def write(path: Path, text: str) -> None:
    with opened(path, "w") as file:
        file.write(text)


def replace(path: Path, text: str) -> None:
    """The file is as it was, or has all of the text."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write(draft, text)
    os.replace(draft, path)


def _opener(path: str, flags: int) -> int:
    number = os.open(path, flags, FILE)
    with suppress(PermissionError):
        os.fchmod(number, FILE)
    return number
