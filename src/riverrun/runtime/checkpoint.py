"""An application's checkpoint folder: held by one run at a time."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from riverrun import private
from riverrun.compiler.shape import Shape
from riverrun.errors import AlreadyRunning
from riverrun.kernels.kept import nobody_waits
from riverrun.outputs import Identity
from riverrun.sources.folders.source import FILES

FOUND = "found"
"""The folder of what batches were told from outside."""


@contextmanager
def held(folder: Path, name: str) -> Iterator[None]:
    """Nobody else may run the application meanwhile; the lock goes with the process."""
    private.folder(folder)
    with private.opened(folder / "lock", "a+") as file:
        if not _taken(file, fcntl.LOCK_EX, attempts=5):
            file.seek(0)
            raise AlreadyRunning(
                f"the application {name!r} is running already",
                where=folder,
                got=f"process {file.read().strip() or 'unknown'}",
                hint=f"stop it with `riverrun stop {name}`, or give this program another name",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        (folder / "stop").unlink(missing_ok=True)
        nobody_waits(folder / FOUND)
        yield


def holder(folder: Path) -> int | None:
    """The process that runs the application; None if it does not run."""
    try:
        with (folder / "lock").open() as file:
            return None if _taken(file, fcntl.LOCK_SH) else int(file.read().strip() or 0)
    except FileNotFoundError:
        return None


def _taken(file: IO[str], kind: int, attempts: int = 1) -> bool:
    """Whoever only looks takes the lock for a moment, too: hence more than one attempt."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(0.05)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


Wish = Literal["drain", "now"]


def ask_to_stop(folder: Path, wish: Wish) -> None:
    """For the process that runs the application, wherever it is."""
    private.write(folder / "stop", wish)


def wish_to_stop(folder: Path) -> str | None:
    try:
        return (folder / "stop").read_text() or None
    except FileNotFoundError:
        return None


def forget(folder: Path) -> None:
    for name in ("query", FOUND, FILES):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("program.json", "id"):
        (folder / name).unlink(missing_ok=True)


def identity(folder: Path, *, keep_written: bool = False) -> Identity:
    """The checkpoint's own id, made with it, and a number for this run: later ones are higher."""
    file, query = folder / "id", folder / "query"
    if not file.exists() or not query.exists():
        private.write(file, uuid.uuid4().hex)
    return Identity(file.read_text(), _next_run(folder / "number"), keep_written)


def committed(folder: Path) -> bool:
    """Whether every batch that was planned is committed: none will be run again."""
    planned, done = (_last(folder / "query" / name) for name in ("offsets", "commits"))
    return planned == done


def _last(folder: Path) -> int:
    numbers = (int(each.name) for each in folder.glob("*") if each.name.isdigit())
    return max(numbers, default=-1)


def begun(folder: Path) -> bool:
    """Whether a batch of it was ever planned."""
    offsets = folder / "query" / "offsets"
    return offsets.exists() and any(each.name.isdigit() for each in offsets.iterdir())


def _next_run(last: Path) -> int:
    """The time, since other machines count, too; above the last one here if the clock went back."""
    before = int(last.read_text()) if last.exists() else 0
    number = max(time.time_ns() // 1000, before + 1)
    private.replace(last, str(number))
    return number


def note(folder: Path, shape: Shape) -> None:
    """What the next run is compared with."""
    private.write(folder / "program.json", json.dumps(shape, indent=1))
