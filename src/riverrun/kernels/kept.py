"""What a batch was told from outside, kept so that a batch that is run again is told the same.

Spark runs a batch again from the state before it. What a database answered meanwhile is not in
that state: it is written down under the batch before it is used, and whoever comes second takes
what the first one wrote.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from riverrun import private
from riverrun.far import AnyPath, FarPath, remove

BEFORE = 3
"""Batches whose answers stay beside those of the one that runs: it alone can be run again."""
WAITING = "waiting"

Ask = Callable[[], bytes]


@dataclass(frozen=True)
class Logged:
    """A batch as it was logged: the same when it is run again, and no other has both numbers."""

    batch: int = 0
    tick: int = 0


class Kept(ABC):
    """Where answers are kept, by batch and by a name."""

    @abstractmethod
    def once(self, at: Logged, name: str, ask: Ask) -> bytes:
        """What was answered in this batch under this name; it is asked if nothing was."""

    @abstractmethod
    def wait(self, name: str, text: str | None) -> None:
        """Tells people what is waited for; None when it is over."""


class NotKept(Kept):
    """For batches that are never run again."""

    def once(self, at: Logged, name: str, ask: Ask) -> bytes:
        return ask()

    def wait(self, name: str, text: str | None) -> None:
        """Nobody is told."""


@dataclass
class KeptInMemory(Kept):
    """For the test driver, whose crashes leave memory as it is."""

    answers: dict[tuple[Logged, str], bytes] = field(default_factory=dict)

    def once(self, at: Logged, name: str, ask: Ask) -> bytes:
        if (at, name) not in self.answers:
            self.answers[at, name] = ask()
        return self.answers[at, name]

    def wait(self, name: str, text: str | None) -> None:
        """Nobody is told."""


@dataclass(frozen=True)
class KeptInFolder(Kept):
    """For Spark: a folder that every worker sees, one file for each answer."""

    folder: AnyPath

    def once(self, at: Logged, name: str, ask: Ask) -> bytes:
        file = self.folder / f"{at.batch:012d}-{at.tick}" / name
        with suppress(FileNotFoundError):
            return file.read_bytes()
        return self._first(at, file, ask())

    def _first(self, at: Logged, file: AnyPath, data: bytes) -> bytes:
        """Two attempts at one task may be here at a time: that which writes first is right."""
        if not file.parent.exists():
            private.folder(self.folder)
            private.folder(file.parent)
            self._forget(at.batch - BEFORE)
        if isinstance(file, FarPath):
            return _first_far(file, data)
        draft = file.with_name(f".{uuid4().hex}.tmp")
        _written(draft, data)
        try:
            os.link(draft, file)
        except FileExistsError:
            return file.read_bytes()
        finally:
            draft.unlink()
        private.sync(file.parent)
        return data

    def _forget(self, before: int) -> None:
        with suppress(FileNotFoundError):
            for each in self.folder.iterdir():
                number = each.name.partition("-")[0]
                if number.isdigit() and int(number) < before:
                    remove(each)

    def wait(self, name: str, text: str | None) -> None:
        file = self.folder / WAITING / name
        if text is None:
            file.unlink(missing_ok=True)
        else:
            private.folder(self.folder)
            private.replace(private.folder(file.parent) / name, text)


def awaited(folder: AnyPath) -> list[str]:
    """What tasks wait for, each once."""
    found = set()
    with suppress(FileNotFoundError):
        for file in (folder / WAITING).iterdir():
            with suppress(FileNotFoundError):
                found.add(file.read_text())
    return sorted(found - {""})


def nobody_waits(folder: AnyPath) -> None:
    """A run that was killed has left what it waited for."""
    remove(folder / WAITING)


def _first_far(file: FarPath, data: bytes) -> bytes:
    """No file system there is asked to refuse a second one. Who comes between the look and the
    write writes over it: two attempts of one task, at the same moment."""
    with suppress(FileNotFoundError):
        return file.read_bytes()
    file.write_bytes(data)
    return data


def _written(file: Path, data: bytes) -> None:
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private.FILE)
    with os.fdopen(number, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


@dataclass(frozen=True)
class Outside:
    """What a step in a page is told from outside of its rows and its state."""

    kept: Kept = field(default_factory=NotKept)
    at: Logged = field(default_factory=Logged)
    step: str = ""
    page: int = 0

    def once(self, what: str, ask: Ask) -> bytes:
        """The answer to a question that has a name: of the first attempt at the batch."""
        return self.kept.once(self.at, f"{self._name}-{what}", ask)

    def wait(self, text: str | None) -> None:
        self.kept.wait(self._name, text)

    @property
    def _name(self) -> str:
        # a step's name may be longer than that of a file
        return f"{sha256(self.step.encode()).hexdigest()[:16]}-{self.page}"
