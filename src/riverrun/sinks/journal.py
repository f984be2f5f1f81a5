"""What a folder of files remembers of an application: its run, its batches, files not yet seen.

It is kept in `_riverrun/APPLICATION` below the folder. Readers leave out names that start so.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.private import sync

HOME = "_riverrun"
STAGED = ".staged"
PATIENCE = 60.0
"""Seconds that a run waits for an earlier one that is writing."""


@dataclass(frozen=True)
class Batch:
    """A batch as it is noted: what it holds does not depend on how tasks have cut it."""

    checkpoint: str
    batch: int
    rows: int
    checksum: str
    """The version of what made it, and the sum."""
    files: tuple[str, ...]
    """As seen from the folder."""

    def like(self, other: Batch) -> bool:
        """Whether the rows are the same, as far as sums of one version can tell."""
        versions = {each.checksum.partition(":")[0] for each in (self, other)}
        sums = len({self.checksum, other.checksum})
        return self.rows == other.rows and (sums == 1 or len(versions) == 2)


class Journal:
    """Of one application in one folder."""

    def __init__(self, folder: Path, application: str) -> None:
        self.folder, self.application = folder, application
        self.home = folder / HOME / application
        self.staging = self.home / "staging"

    def stage(self, checkpoint: str, batch: int, file: str) -> Path:
        """Where a file is before its batch is committed. Its name does not end as others do."""
        return self.staging / checkpoint / f"{batch:09d}" / f"{file}{STAGED}"

    @contextmanager
    def held(self, run: int, *, shared: bool = False) -> Iterator[None]:
        """No other run writes meanwhile; an earlier run than the last one is refused.

        Tasks of one run may share it: each has a place of its own.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        with locked(self.home / "lock", whose=self.application, where=self.folder, shared=shared):
            last = self.run()
            if run < last:
                raise AlreadyRunning(
                    f"a later run of {self.application!r} has taken over",
                    where=self.folder,
                    got=f"run {run}, and {last} since",
                    hint="let one of them run; this one has written nothing since",
                )
            yield

    def run(self) -> int:
        """The last run that took over; 0 before the first."""
        try:
            return int((self.home / "run").read_text())
        except FileNotFoundError:
            return 0

    def note_run(self, run: int) -> None:
        write(self.home / "run", str(run))

    def noted(self, checkpoint: str) -> Batch | None:
        """The last batch of a checkpoint."""
        try:
            found = json.loads((self.home / f"{checkpoint}.json").read_text())
        except FileNotFoundError:
            return None
        return Batch(**{**found, "files": tuple(found["files"])})

    def every_noted(self) -> list[Batch]:
        found = [self.noted(file.stem) for file in sorted(self.home.glob("*.json"))]
        return [batch for batch in found if batch is not None]

    def note(self, batch: Batch) -> None:
        write(self.home / f"{batch.checkpoint}.json", json.dumps(asdict(batch), indent=1))

    def move_in(self, batch: Batch) -> None:
        """Staged files of the batch to where readers see them. Those that are there stay."""
        moved = []
        for file in batch.files:
            target = self.folder / file
            staged = self.stage(batch.checkpoint, batch.batch, file)
            if staged.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged, target)
                moved.append(target)
        sync_names(moved, self.folder)

    def clear(self, checkpoint: str | None = None, batch: int = 0) -> None:
        """Removes what is staged, but not for later batches of the checkpoint."""
        for folder in _inside(self.staging):
            if folder.name != checkpoint:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            for each in _inside(folder):
                if int(each.name) <= batch:
                    shutil.rmtree(each, ignore_errors=True)


def compare(batch: Batch, done: int, noted: Batch | None, folder: Path) -> None:
    """A batch that is committed may come again, but only the last one, and as it was."""
    if batch.batch < done:
        fact = "the checkpoint is behind the folder that it wrote"
        got = f"batch {batch.batch}, after batch {done} was committed"
    elif noted is not None and not batch.like(noted):
        fact = f"batch {batch.batch} has other rows than when it was committed"
        got = f"{noted.rows} rows ({noted.checksum}), now {batch.rows} ({batch.checksum})"
    else:
        return
    raise CheckpointError(
        fact,
        where=folder,
        got=got,
        hint="nothing was written; undo what changed since (the program, or a restored "
        "checkpoint); or keep what is written: `riverrun run … --keep-written`; or start over with "
        "--fresh and an empty folder",
    )


@contextmanager
def locked(file: Path, *, whose: str, where: Path, shared: bool = False) -> Iterator[None]:
    """Holds a file for the length of a block. Who dies lets go of it."""
    kind, give_up_at = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + PATIENCE
    with file.open("a+") as held:
        while True:
            try:
                fcntl.flock(held.fileno(), kind | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > give_up_at:
                    raise AlreadyRunning(
                        f"another run of {whose!r} is writing",
                        where=where,
                        got=f"waited {PATIENCE:g} seconds",
                        hint="end it first",
                    ) from error
                time.sleep(0.05)
        yield


def write(file: Path, text: str) -> None:
    """The whole file or none of it, also when the machine stops. One process writes at a time."""
    temporary = file.with_name(f"{file.name}.tmp")
    with temporary.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, file)
    sync(file.parent)


def sync_names(files: Iterable[Path], top: Path) -> None:
    """The names of files, and of folders that were made for them below `top`, are on the disk."""
    for folder in {each for file in files for each in file.parents if each.is_relative_to(top)}:
        sync(folder)


def _inside(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.exists() else ()
