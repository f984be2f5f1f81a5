"""Records that are set aside for good: whatever batch reads them, they are dead letters.

They are logged in the checkpoint before the batch is run that reads them, so that it leaves out the
same ones whenever it is run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from riverrun import private
from riverrun.far import AnyPath
from riverrun.kernels.letters import RecordPlace

FILE = "aside.json"


@dataclass(frozen=True)
class SetAside:
    """A record that ends the run that reads it."""

    topic: str
    """As the program reads it: one of several readings has a name of its own."""
    partition: int
    offset: int
    batch: int
    cause: str

    @property
    def place(self) -> RecordPlace:
        return RecordPlace(self.topic, self.partition, self.offset)


def read(folder: AnyPath) -> list[SetAside]:
    try:
        found = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return []
    return [SetAside(**each) for each in found]


def add(folder: AnyPath, found: Iterable[SetAside]) -> None:
    """They are on the disk when it returns. Those that are there stay as they are: whoever noted
    them may have been killed before it could tell."""
    before = read(folder)
    known = causes(before)
    all_of_them = [*before, *(each for each in found if each.place not in known)]
    text = json.dumps([asdict(each) for each in all_of_them], indent=1)
    private.replace(folder / FILE, text, durable=True)


def causes(found: Iterable[SetAside]) -> dict[RecordPlace, str]:
    return {each.place: each.cause for each in found}
