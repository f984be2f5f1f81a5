"""What a destination remembers of a write task, in the same transaction as the task's results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from riverrun.delivery.destination import Part
from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.kernels.chunks import with_hash
from riverrun.kernels.hashes import mixed


@dataclass(frozen=True)
class Progress:
    """The last batch of a task that took effect, and what it held."""

    run: int
    batch: int
    rows: int
    checksum: int


def progress_of(part: Part, tables: list[pa.Table]) -> Progress:
    """Of rows as they are written. Their order does not matter."""
    rows = sum(table.num_rows for table in tables)
    total = sum(_checksum(number, table) for number, table in enumerate(tables, start=1))
    return Progress(part.run, part.batch, rows, total % 2**63)


def _checksum(number: int, table: pa.Table) -> int:
    frame = pl.DataFrame(pl.from_arrow(table))
    hashes = with_hash(frame, tuple(frame.columns))["__hash"].to_numpy()
    return int(mixed(hashes, number).sum(dtype=np.uint64))


def done(part: Part, stored: Progress | None, now: Progress) -> bool:
    """Whether the part took effect already; an error if what took effect is not the same."""
    if stored is None or stored.batch < part.batch:
        return False
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


def refuse_if_later(part: Part, latest: int) -> None:
    """A task of a run that another one has followed may write no more."""
    if latest > part.run:
        raise AlreadyRunning(
            f"a later run of the application {part.application!r} has taken over",
            got=f"run {latest}; this is {part.run}",
            hint="this one ends here, and nothing of its last batch is written twice",
        )
