"""One process at a time: a lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

from riverrun import private
from riverrun.errors import ServerError


@contextmanager
def exclusive(file: Path, *, patience: timedelta = timedelta(minutes=5)) -> Iterator[None]:
    """Hold `file` alone for the length of a block, waiting for another holder first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with private.opened(file, "a") as handle:
        _acquire(handle, file, patience)
        yield


def _acquire(handle: IO[str], file: Path, patience: timedelta) -> None:
    give_up_at = time.monotonic() + patience.total_seconds()
    while not _try(handle):
        if time.monotonic() > give_up_at:
            raise ServerError(
                "another riverrun process is busy with the same folder",
                where=file,
                got=f"no end after {patience}",
                hint="wait for it, or end it",
            )
        time.sleep(0.05)


def _try(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
