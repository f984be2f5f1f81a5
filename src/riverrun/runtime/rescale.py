"""The state of an application that does not run, dealt to another number of tasks.

Pages stay what they are: Spark deals them to its parts anew. It is done with a copy, which takes
the place of the checkpoint only after every head and every segment was found in it again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.compiler import upgrades
from riverrun.config import Settings
from riverrun.errors import CheckpointError, InputError
from riverrun.runtime import checkpoint
from riverrun.runtime.batches import Batches
from riverrun.runtime.state import started
from riverrun.spark.stored import StoredState

DRAFT = ".rescaled"
Found = dict[tuple[int, int, str], str]
"""By exchange, page and id of a segment the hash of its content; without an id, the page's head."""


@dataclass(frozen=True)
class Rescaled:
    application: str
    before: int
    now: int
    pages: int
    segments: int
    bytes: int
    batch: int
    """The one that stands for it in the log: it reads nothing."""


def rescale(
    settings: Settings, application: str, parts: int, tell: Callable[[str], None]
) -> Rescaled:
    folder = local_checkpoint(settings, application)
    shape = upgrades.read(folder)
    if shape is None or not (folder / "query" / "state").is_dir():
        raise InputError(
            f"the application {application!r} keeps nothing that could be rescaled", where=folder
        )
    _check(application, shape, parts)
    if Batches(folder).parts() == parts:
        raise InputError(f"the state of {application!r} is in {parts} parts already")
    with private.by_default(), checkpoint.held(folder, application):
        require_whole(application, folder)
        draft = folder / DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        tell("copying the checkpoint")
        shutil.copytree(folder / "query", draft)
        try:
            made = _rescaled(settings, application, parts, tell)
            checkpoint.swap(folder, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return made


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


def _rescaled(
    settings: Settings, application: str, parts: int, tell: Callable[[str], None]
) -> Rescaled:
    folder = local_checkpoint(settings, application)
    tell("starting Spark")
    with started(settings, application) as spark:
        stored = StoredState(spark.session, folder / "query")
        before = max(stored.exchanges().values())
        draft = StoredState(spark.session, folder / DRAFT)
        tell(f"dealing the pages to {parts} parts")
        draft.repartition(parts)
        batch = _reads_nothing(folder / DRAFT / "offsets")
        tell("comparing every page and segment")
        was, size = _content(stored)
        now, _ = _content(draft)
        if was != now or set(draft.exchanges().values()) != {parts}:
            raise CheckpointError(
                "the rescaled state is not the same: the checkpoint was left as it was",
                where=folder,
                got=f"{len(was.items() ^ now.items())} pages and segments differ",
            )
    segments = [each for each in was if each[2]]
    pages = {page for _, page, _ in was}
    return Rescaled(application, before, parts, len(pages), len(segments), size, batch)


def _reads_nothing(offsets: Path) -> int:
    """The batch that Spark adds is a copy of the last one: of what that one read, it reads nothing
    again. Its checksum is that of the copy."""
    number = max(int(each.name) for each in offsets.iterdir() if each.name.isdigit())
    lines = (offsets / str(number)).read_text().splitlines()
    logged = json.loads(lines[2]) | {"begins": {}}
    (offsets / f".{number}.crc").unlink(missing_ok=True)
    private.write(offsets / str(number), "\n".join([*lines[:2], json.dumps(logged), *lines[3:]]))
    return number


def _content(stored: StoredState) -> tuple[Found, int]:
    found: Found = {}
    size = 0
    for exchange in stored.exchanges():
        for page, head in stored.heads(exchange).items():
            found[exchange, page, ""] = hashlib.sha256(head).hexdigest()
        for page, segment, data in stored.segments(exchange):
            found[exchange, page, segment] = hashlib.sha256(data).hexdigest()
            size += len(data)
    return found, size
