"""Which servers of a home run: each leaves a note of itself for clients of this machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from riverrun import private
from riverrun.config import Settings

FOLDER, NOTES = "server", "running"


@dataclass(frozen=True)
class Running:
    """What others are told of a server that runs."""

    url: str
    pid: int
    begun: float
    """When its process began."""
    noted: float
    """When it began to serve."""

    @property
    def alive(self) -> bool:
        try:
            return abs(psutil.Process(self.pid).create_time() - self.begun) < 1
        except psutil.Error:
            return False


@contextmanager
def noted(settings: Settings, url: str) -> Iterator[None]:
    folder = private.folder(private.folder(settings.home / FOLDER) / NOTES)
    for file, left in _notes(settings):
        if left is None or not left.alive:
            file.unlink(missing_ok=True)
    own = Running(url, os.getpid(), psutil.Process().create_time(), time.time())
    file = folder / f"{own.pid}-{urlsplit(url).port}.json"
    private.replace(file, json.dumps(asdict(own)))
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()


def found(settings: Settings) -> Running | None:
    """The server of this home: of several, the one that began last."""
    alive = [each for _, each in _notes(settings) if each is not None and each.alive]
    return max(alive, key=lambda each: each.noted, default=None)


def _notes(settings: Settings) -> Iterator[tuple[Path, Running | None]]:
    for file in (settings.home / FOLDER / NOTES).glob("*.json"):
        try:
            yield file, Running(**json.loads(file.read_text()))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError):
            yield file, None
