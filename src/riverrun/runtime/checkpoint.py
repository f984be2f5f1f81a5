"""An application's checkpoint folder, here or far: held by one run at a time."""

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
from riverrun.compiler import upgrades
from riverrun.compiler.shape import Shape
from riverrun.errors import AlreadyRunning, CheckpointError, InputError
from riverrun.far import AnyPath, FarPath, remove
from riverrun.kernels import known as known_times
from riverrun.kernels import page_files
from riverrun.kernels.kept import nobody_waits
from riverrun.kernels.known import KnownInFolder
from riverrun.kernels.page_files import PageFiles
from riverrun.outputs import Identity
from riverrun.runtime import aside, bisecting, claims
from riverrun.runtime.batches import Batches
from riverrun.sources.folders.source import FILES

REPLACED = ".replaced"
"""The folder of the query, while another takes its place."""
FOUND = "found"
"""The folder of what batches were told from outside."""


LOCK = "lock"
HALF = "restoring"
"""A file that is there until a far checkpoint has been put in place."""


@contextmanager
def held(folder: AnyPath, name: str) -> Iterator[claims.Hold]:
    """Nobody else may run the application meanwhile; who holds it asks whether it still does."""
    holding = claims.held if isinstance(folder, FarPath) else _locked
    with holding(folder, name) as hold:  # type: ignore[arg-type]
        if isinstance(folder, FarPath):
            (folder / LOCK).write_text(str(os.getpid()))
        (folder / "stop").unlink(missing_ok=True)
        nobody_waits(folder / FOUND)
        if isinstance(folder, Path):
            _swapped(folder)
        yield hold


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[claims.Hold]:
    """The lock goes with the process."""
    private.folder(folder)
    with private.opened(folder / LOCK, "a+") as file:
        if not _taken(file, fcntl.LOCK_EX, attempts=5):
            file.seek(0)
            raise AlreadyRunning(
                f"the application {name!r} is running already",
                where=folder,
                got=f"process {file.read().strip() or 'unknown'}",
                hint=f"stop it first: `riverrun stop {name}`",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield lambda: None


def known(folder: AnyPath) -> bool:
    """Whether it was ever held: something runs or has run there."""
    return (folder / LOCK).exists()


def swap(folder: Path, draft: Path) -> None:
    """Another state of the query in place of its own, while the checkpoint is held. Whoever is
    killed in between leaves the old one: the next who holds it puts it back."""
    os.replace(folder / "query", folder / REPLACED)
    os.replace(draft, folder / "query")
    shutil.rmtree(folder / REPLACED)


def _swapped(folder: Path) -> None:
    if (folder / REPLACED).exists() and not (folder / "query").exists():
        os.replace(folder / REPLACED, folder / "query")
    shutil.rmtree(folder / REPLACED, ignore_errors=True)


def holder(folder: AnyPath) -> int | None:
    """The process that runs the application; None if it does not run."""
    if isinstance(folder, FarPath):
        return claims.holder(folder)
    try:
        with (folder / LOCK).open() as file:
            return None if _taken(file, fcntl.LOCK_SH) else int(file.read().strip() or 0)
    except FileNotFoundError:
        return None


def require_whole(folder: AnyPath) -> None:
    if (folder / HALF).exists():
        raise CheckpointError(
            "the checkpoint is half restored",
            where=folder,
            hint="`riverrun restore FILE --force` once more, or start over with --fresh",
        )


def require_here(folder: AnyPath, what: str, hint: str) -> Path:
    """The folder, if it is on this machine: far ones cannot be renamed as a whole."""
    if isinstance(folder, FarPath):
        raise InputError(f"{what} needs a checkpoint on this machine", where=folder, hint=hint)
    return folder


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


def ask_to_stop(folder: AnyPath, wish: Wish) -> None:
    """For the process that runs the application, wherever it is."""
    private.write(folder / "stop", wish)


def wish_to_stop(folder: AnyPath) -> str | None:
    try:
        return (folder / "stop").read_text() or None
    except FileNotFoundError:
        return None


def forget(folder: AnyPath) -> None:
    for name in ("query", FOUND, FILES):
        remove(folder / name)
    for name in ("program.json", "id", HALF, aside.FILE, bisecting.FILE):
        (folder / name).unlink(missing_ok=True)


def identity(folder: AnyPath, *, keep_written: bool = False) -> Identity:
    """The checkpoint's own id, made with it, and a number for this run: later ones are higher."""
    file, query = folder / "id", folder / "query"
    if not file.exists() or not query.exists():
        private.write(file, uuid.uuid4().hex)
    return Identity(file.read_text(), _next_run(folder / "number"), keep_written)


def committed(folder: AnyPath) -> bool:
    """Whether every batch that was planned is committed: none will be run again."""
    planned, done = (_last(folder / "query" / name) for name in ("offsets", "commits"))
    return planned == done


def drop_uncommitted(folder: AnyPath) -> None:
    """State that a batch has written which was not committed. It is run again, by another program
    perhaps, and writes its own."""
    batches = Batches(folder)
    batches.look()
    last, query = batches.committed(), folder / "query"
    if last < 0 and batches.known() - {0}:
        raise page_files.not_whole(query, "Spark's log of batches that are done is not there")
    number = batches.at(last).batch if last >= 0 else 0
    exchanges = (upgrades.read(folder) or {}).get("exchanges", 0)
    for level, pages in page_files.places(query).items():
        pages.remove_after(number)
        if level < exchanges:  # the program may have had more of them before
            _require_last(pages, known_times.place(query, level), number)


def _require_last(pages: PageFiles, times: KnownInFolder, number: int) -> None:
    """An exchange with something of the batch before the last has something of the last, too."""
    there = number in times.there(), bool(pages.parts(number))
    if not all(there) and (any(there) or number - 1 in times.there()):
        raise page_files.not_whole(pages.folder, f"nothing of batch {number}")


def _last(folder: AnyPath) -> int:
    if not folder.exists():
        return -1
    return max((int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=-1)


def begun(folder: AnyPath) -> bool:
    """Whether a batch of it was ever planned."""
    offsets = folder / "query" / "offsets"
    return offsets.exists() and any(each.name.isdigit() for each in offsets.iterdir())


def _next_run(last: AnyPath) -> int:
    """The time, since other machines count, too; above the last one here if the clock went back."""
    before = int(last.read_text()) if last.exists() else 0
    number = max(time.time_ns() // 1000, before + 1)
    private.replace(last, str(number))
    return number


def note(folder: AnyPath, shape: Shape) -> None:
    """What the next run is compared with."""
    private.write(folder / "program.json", json.dumps(shape, indent=1))
