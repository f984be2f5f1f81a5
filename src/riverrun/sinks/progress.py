"""What a destination remembers of a write task, in the same transaction as the task's results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.kernels.chunks import with_hash
from riverrun.kernels.hashes import mixed
from riverrun.outputs import Part


@dataclass(frozen=True)
class Progress:
    """The last batch of a task that took effect, and what it held."""

    batch: int
    rows: int
    checksum: int
    run: int


def progress_of(part: Part, tables: list[pa.Table]) -> Progress:
    """Of rows as they are written. Their order does not matter."""
    rows = sum(table.num_rows for table in tables)
    total = sum(_checksum(number, table) for number, table in enumerate(tables, start=1))
    return Progress(part.batch, rows, total % 2**63, part.run)


def _checksum(number: int, table: pa.Table) -> int:
    frame = pl.DataFrame(pl.from_arrow(table)).with_columns(cs.binary().bin.encode("base64"))
    hashes = with_hash(frame, tuple(frame.columns))["__hash"].to_numpy()
    return int(mixed(hashes, number).sum(dtype=np.uint64))


def checksum(texts: Iterable[bytes]) -> int:
    """The same for the same bytes, in whatever pieces they come."""
    found = 0
    for text in texts:
        found = crc32(text, found)
    return found


class Compared(Part):
    """A part of which nothing is written: it is compared with what is there."""


def compared(part: Part) -> Compared:
    return Compared(**vars(part))


def done(part: Part, stored: Progress | None, now: Progress) -> bool:
    """Whether the part took effect already, or is not to; an error if what took effect is not the
    same."""
    if stored is None or stored.batch < part.batch:
        return isinstance(part, Compared)
    if stored.batch > part.batch:
        raise CheckpointError(
            f"the checkpoint stands at batch {part.batch}, and batch {stored.batch} is written",
            where=f"task {part.task} of {part.application!r}",
            got="an older state of the checkpoint was put back",
            hint="put it back with `riverrun restore`, which writes what follows again; or start "
            "over with --fresh",
        )
    same = (stored.rows, stored.checksum) == (now.rows, now.checksum)
    if not same and not part.keep_written:
        raise CheckpointError(
            f"batch {part.batch} was written before, with other results",
            where=f"task {part.task} of {part.application!r}",
            got=f"written: {_told(stored)}; now: {_told(now)}",
            hint="the program or its input changed while the batch was half written: finish it "
            "with the former version, or keep what is written: `riverrun run … --keep-written`",
        )
    return True


def _told(progress: Progress) -> str:
    return f"{progress.rows} rows, checksum {progress.checksum:x}"


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
