"""What is known of an application's last run: who runs it, and how it ended."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from riverrun import private
from riverrun.far import AnyPath, FarPath

FILE = "run.json"
ROOM, LONGEST = 16 << 10, 2_000
"""Bytes of the file, and signs of an error that are kept: one may take six bytes."""

End = Literal["stopped", "finished", "failed"]
"""A run that was killed has none: nobody was left to note it."""


class Run:
    """What is noted of a run, from its beginning on."""

    def __init__(self, folder: AnyPath, **facts: Any) -> None:
        self.file = folder / FILE
        self.facts = facts
        self.end: End = "stopped"

    def begin(self) -> None:
        private.replace(self.file, self._text())

    def note(self, **more: Any) -> None:
        """In place: what the file takes is taken before, so that a full disk can be noted, too."""
        self.facts |= more
        if isinstance(self.file, FarPath):
            private.replace(self.file, self._text())
            return
        with self.file.open("r+") as file:
            file.write(self._text())

    def _text(self) -> str:
        return json.dumps(self.facts).ljust(ROOM)


@contextmanager
def noted(folder: AnyPath, *, master: str, log: Path, program: str | None = None) -> Iterator[Run]:
    """Keeps the note while the block runs, and how it ends; the folder is held meanwhile."""
    run = Run(
        folder, pid=os.getpid(), host=socket.gethostname(), master=master, log=str(log),
        program=program,
    )  # fmt: skip
    run.begin()
    error: str | None = None
    try:
        yield run
    except Exception as failed:
        run.end, error = "failed", (str(failed) or type(failed).__name__)[:LONGEST]
        raise
    finally:
        with suppress(OSError):  # a full disk hides no other error
            run.note(end=run.end, error=error, ended_at=time.time())


def last(folder: AnyPath) -> dict[str, Any]:
    """The facts of the last run; none if there was none."""
    try:
        found: dict[str, Any] = json.loads((folder / FILE).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found
