"""A sink of one's own: rows as JSON lines in a folder, one file for each task's part of a batch.

A part that comes again replaces its file by the same one, so that each row is there once.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.outputs import (
    Delivery,
    Destination,
    Evaluator,
    Guarantee,
    OutputSpec,
    Part,
    Places,
    Rows,
    Sink,
)
from riverrun.schema import Schema


@dataclass(frozen=True)
class JsonLines(Sink):
    """A folder of JSON lines."""

    folder: str

    @property
    def name(self) -> str:
        return f"lines:{Path(self.folder).name}"

    @property
    def text(self) -> str:
        return f"JSON lines in {self.folder}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        """JSON holds whatever there is."""

    def destination(self, places: Places) -> Destination:
        return LinesFolder(Path(self.folder))

    def owns(self) -> str:
        return self.folder


class LinesFolder(Destination):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def take_over(self, application: str, run: int) -> None:
        with self._held(application, run) as last:
            replace(last, str(run))

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        # the order of rows may be another one when a part comes again
        text = "\n".join(sorted(line for each in found for line in lines(*each)))
        file = self.folder / f"{part.checkpoint}-{part.batch:09d}-{part.task:05d}.jsonl"
        with self._held(part.application, part.run):
            if not file.exists():
                replace(file, text)
            elif file.read_text() != text and not part.keep_written:
                raise CheckpointError("the part was written before, with other rows", where=file)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Tasks do it all."""

    @contextmanager
    def _held(self, application: str, run: int) -> Iterator[Path]:
        """The file that names the last run; only that one may write."""
        last = self.folder / f".{application}.run"
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if last.exists() and int(last.read_text()) > run:
                raise AlreadyRunning("a later run has taken over", where=self.folder)
            yield last


def lines(output: OutputSpec, rows: pa.Table) -> Iterator[str]:
    for row in rows.to_pylist():
        change = "-" if output.table and row["__op"] < 0 else "+"
        columns = {name: row[name] for name in output.schema.names}
        yield json.dumps({"change": change, **columns}, default=str)


def replace(file: Path, text: str) -> None:
    """The whole file, or none of it."""
    temporary = file.with_name(f".{uuid.uuid4().hex}")
    temporary.write_text(text)
    os.replace(temporary, file)
