"""A copy of a checkpoint as it stands after a batch, also while its application goes on.

What Spark has written of a batch that is committed it never changes, and it keeps the last hundred
of them. So a copy needs no lock: it takes what belongs to batches up to the last that is done.
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
from riverrun.errors import InputError
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
                _copied(path, draft / inside)
        private.write(target / "id", uuid.uuid4().hex)
    yield last
    os.replace(draft, target / "query")


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


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # of a batch that is long past
        shutil.copyfile(source, target)
