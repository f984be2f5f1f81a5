"""A copy of a checkpoint as it stands after a batch, also while its application goes on.

What is written of a batch that is committed never changes, and the last hundred of them are kept.
So a copy needs no lock: it takes what belongs to batches up to the last that is done. On one disk
pages are not copied, but get a second name, so that no state is so large that a hundred batches
pass meanwhile.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from riverrun import private
from riverrun.compiler import upgrades
from riverrun.errors import CheckpointError, InputError
from riverrun.kernels import known, page_files
from riverrun.kernels.page_files import NAME
from riverrun.runtime.batches import Batches
from riverrun.sources.folders.source import FILES

DRAFT = ".copied"
LOGS = ("offsets", "commits")
"""Folders of Spark's with a file for each batch."""
OF_BATCH = re.compile(r"\.?(\d+)(\.crc)?")


@contextmanager
def copied(source: Path, target: Path) -> Iterator[int]:
    """Puts what `source` holds after its last batch into `target`, once the block is left; the
    number of the batch."""
    batches = Batches(source)
    batches.look()
    last = batches.committed()
    if last < 0:
        raise InputError(
            "there is no state yet", where=source, hint="no batch of it is done: leave --from out"
        )
    draft = target / DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    with private.by_default():
        _copied(source / "program.json", target / "program.json")
        # what is noted of files after the batch is found there again, with the same numbers
        for path in _inside(source / FILES):
            _copied(path, target / FILES / path.relative_to(source / FILES))
        for path in _inside(source / "query"):
            inside = path.relative_to(source / "query")
            if _belongs(inside, last):
                (_linked if NAME.fullmatch(inside.name) else _copied)(path, draft / inside)
        _require_whole(draft, target, batches, last)
        private.write(target / "id", uuid.uuid4().hex)
    yield last
    os.replace(draft, target / "query")


def _require_whole(draft: Path, target: Path, batches: Batches, last: int) -> None:
    """Nothing was removed before it was copied."""
    shape = upgrades.read(target) or {}
    number = batches.at(last).batch
    try:
        if not all((draft / each / str(last)).exists() for each in LOGS):
            raise page_files.not_whole(draft, f"batch {last} is not in Spark's logs")
        for exchange in range(shape.get("exchanges", 0)):
            page_files.place(draft, exchange).require(number)
            known.place(draft, exchange).require(number)
    except CheckpointError as error:
        raise InputError(
            "the application went on by a hundred batches while its state was copied",
            where=error.where,
            got=error.got,
            hint="once more, on the same disk as the application's own, or while it is stopped",
        ) from error


def _belongs(inside: Path, last: int) -> bool:
    """Whether a file is of a batch up to the last, or of none."""
    if inside.name.endswith(".tmp"):
        return False
    if found := NAME.fullmatch(inside.name):
        return int(found[1]) <= last + 1
    if inside.parts[0] in LOGS and (found := OF_BATCH.fullmatch(inside.name)):
        return int(found[1]) <= last
    return True


def _inside(folder: Path) -> Iterator[Path]:
    """Files, those of a folder before those of the folders in it: what names others comes first,
    and is there only after them."""
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def _linked(source: Path, target: Path) -> None:
    """A second name for what is never changed, only removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        return
    except OSError:  # another disk, or one that has no such names
        _copied(source, target)


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # of a batch that is long past
        shutil.copyfile(source, target)
