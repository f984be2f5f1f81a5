"""How far a task of a checkpoint has delivered, kept where its results are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from riverrun.delivery.destination import Part
from riverrun.errors import AlreadyRunning, CheckpointError


@dataclass(frozen=True)
class Progress:
    """The last batch that took effect, and what it held."""

    batch: int
    rows: int
    checksum: int
    run: int


def checksum(texts: Iterable[bytes]) -> int:
    """The same for the same bytes, in whatever pieces they come."""
    found = 0
    for text in texts:
        found = crc32(text, found)
    return found


def done(part: Part, stored: Progress | None, now: Progress) -> bool:
    """Whether the part has taken effect already. The same batch with other rows is an error."""
    if stored is None or stored.batch < part.batch:
        return False
    if stored.batch == part.batch and (stored.rows, stored.checksum) != (now.rows, now.checksum):
        raise CheckpointError(
            "a batch that was delivered before has other rows now",
            where=f"{part.application}, batch {part.batch}, task {part.task}",
            got=f"{now.rows} rows (checksum {now.checksum}); delivered before:"
            f" {stored.rows} rows (checksum {stored.checksum})",
            hint="was the program changed after a crash? run it as it was until this batch is"
            " through, then change it; or start over with --fresh",
        )
    return True


def refuse_if_fenced(part: Part, latest: int | None) -> None:
    """Only the latest run of an application may write."""
    if latest is not None and latest > part.run:
        raise taken_over(part.application, part.run, latest)


def taken_over(application: str, run: int, latest: int) -> AlreadyRunning:
    return AlreadyRunning(
        f"a later run of the application {application!r} has taken over",
        got=f"this is run {run}, the later one is {latest}",
        hint="stop one of them; if no other runs, this machine's clock is behind the last one's",
    )
