"""What Spark has logged of an application's batches: how far each reads, and which are done.

A batch is logged before it runs. Of batches that are done Spark keeps the last hundred or so.
"""

from __future__ import annotations

import json

from riverrun.errors import InputError
from riverrun.far import AnyPath
from riverrun.sources.planning import Offset

PARTS = "spark.sql.shuffle.partitions"
"""What Spark notes with each batch: into how many parts its exchanges are dealt."""


class Batches:
    def __init__(self, checkpoint: AnyPath) -> None:
        self.folder = checkpoint
        self._offsets, self._commits = (checkpoint / "query" / n for n in ("offsets", "commits"))
        self._known: dict[int, Offset] = {}

    def committed(self) -> int:
        """The last batch that is done: every sink has all of it. -1 before the first."""
        return max(_numbers(self._commits), default=-1)

    def begun(self) -> int:
        """The last batch that is logged."""
        return max(_numbers(self._offsets), default=-1)

    def look(self) -> None:
        """Remembers all that is logged now: Spark may forget it."""
        for number in _numbers(self._offsets):
            if number not in self._known and (found := _read(self._offsets / str(number))):
                self._known[number] = found

    def first(self) -> int:
        """The first batch that is known."""
        self.look()
        if not self._known:
            raise InputError(
                "nothing is known of the application's batches",
                where=self.folder,
                hint="has it run here?",
            )
        return min(self._known)

    def known(self) -> set[int]:
        """Those that were there at the last look."""
        return set(self._known)

    def parts(self) -> int:
        """Into how many parts state is cut, after the last batch that is logged."""
        lines = (self._offsets / str(self.begun())).read_text().splitlines()
        return int(json.loads(lines[1]).get("conf", {}).get(PARTS, 1))

    def at(self, number: int) -> Offset:
        """Where a batch ends that is known."""
        return self._known[number]


def _numbers(folder: AnyPath) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]


def _read(file: AnyPath) -> Offset | None:
    """None if it was forgotten meanwhile."""
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return None
    return Offset.of(json.loads(lines[2]))  # after the version, and what Spark notes itself
