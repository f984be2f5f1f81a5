"""The state of an application that does not run, dealt to another number of tasks.

Pages stay what they are, and where they are: a task finds those that it is dealt, whoever has
written them. How many tasks there are is noted in Spark's log, with the last batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.compiler import upgrades
from riverrun.config import Settings
from riverrun.errors import CheckpointError, InputError
from riverrun.runtime import checkpoint
from riverrun.runtime.batches import PARTS, Batches
from riverrun.runtime.stored import FOLDER


@dataclass(frozen=True)
class Rescaled:
    application: str
    before: int
    now: int
    pages: int


def rescale(
    settings: Settings, application: str, parts: int, tell: Callable[[str], None]
) -> Rescaled:
    folder = local_checkpoint(settings, application)
    shape = upgrades.read(folder)
    if shape is None or not (folder / "query" / FOLDER).is_dir():
        raise InputError(
            f"the application {application!r} keeps nothing that could be rescaled", where=folder
        )
    upgrades.require_layout(shape, folder)
    _check(application, shape, parts)
    before = Batches(folder).parts()
    if before == parts:
        raise InputError(f"the state of {application!r} is in {parts} parts already")
    with private.by_default(), checkpoint.held(folder, application):
        require_whole(application, folder)
        tell(f"dealing the pages to {parts} parts")
        _note(folder / "query" / "offsets", parts)
    return Rescaled(application, before, parts, shape["pages"])


def _note(offsets: Path, parts: int) -> None:
    """Spark goes on with as many as its last batch is logged with, which is done."""
    number = max(int(each.name) for each in offsets.iterdir() if each.name.isdigit())
    lines = (offsets / str(number)).read_text().splitlines()
    noted = json.loads(lines[1])
    noted["conf"][PARTS] = str(parts)
    (offsets / f".{number}.crc").unlink(missing_ok=True)  # of what stood there before
    text = "\n".join([lines[0], json.dumps(noted), *lines[2:]])
    private.replace(offsets / str(number), text, durable=True)


def local_checkpoint(settings: Settings, application: str) -> Path:
    return checkpoint.require_here(
        settings.checkpoint_of(application),
        "rescaling",
        "take it here and back: `riverrun backup`, `riverrun restore` with another `checkpoints`, "
        "rescale, and the same way back",
    )


def _check(application: str, shape: dict[str, Any], parts: int) -> None:
    if shape.get("one writer"):
        raise InputError(
            f"the state of {application!r} is in one part for good",
            got="whole transactions are written by one task",
        )
    if parts > shape["pages"]:
        raise InputError(
            "there cannot be more parts than pages",
            got=f"{parts} parts, {shape['pages']} pages",
            hint=f"at most --partitions {shape['pages']}",
        )


def require_whole(application: str, folder: Path) -> None:
    batches = Batches(folder)
    if batches.begun() != batches.committed():
        raise CheckpointError(
            f"the last batch of {application!r} is not done",
            where=folder,
            got=f"batch {batches.begun()} was begun, {batches.committed()} is done",
            hint="run it once more: `riverrun run PROGRAM --once`",
        )
