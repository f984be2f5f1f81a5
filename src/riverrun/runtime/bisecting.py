"""Which records end a batch: found by trying it with the first so many of them.

Nothing here runs a batch. What was tried is kept in a file, also what is being tried: whoever is
killed by a trial is followed by another, who knows how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Literal

from riverrun import private
from riverrun.far import AnyPath
from riverrun.kernels.letters import RecordPlace
from riverrun.partitions import Range

FILE = "poison.json"
MOST = 10
"""Records of one batch that are set aside: of more, it is the program that is at fault."""
KILLED = "the process that tried it was killed"

Ending = Literal["aside", "stop", "again"]
"""What is to be done after a search: run it, for what ended it is set aside; stop; or run it again,
for nothing was found that ends it each time."""

Ends = Callable[[int, list[int], bool], str | None]
"""Why the batch ends with the first so many records, and without some of them; None: it is done.
What was tried is asked `again` only if it is said."""


class NotFound(Exception):
    """It is no record that ends the batch, or too many do."""


@dataclass
class Book:
    """The search as its file has it."""

    batch: int
    tried: dict[str, str | None] = field(default_factory=dict)
    """Why each trial ended; None of one that was done."""
    trying: str | None = None
    ending: Ending | None = None
    text: str = ""
    """For people: what was found."""

    def kept(self, folder: AnyPath) -> None:
        private.replace(folder / FILE, json.dumps(asdict(self), indent=1), durable=True)


def book(folder: AnyPath) -> Book | None:
    try:
        return Book(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None


def found_of(total: int, ends: Ends) -> list[tuple[int, str]]:
    """The numbers of the records that the batch cannot be done with, each with its cause.

    The first so many records are tried, not some from the middle: a record may do harm only after
    those before it. That which makes the difference is left out, until all others can be done.
    """
    found: list[tuple[int, str]] = []
    done = 0
    if cause := ends(0, [], False):
        raise NotFound(f"the batch ends without any of its records, too: {cause}")
    while ends(total, left := _numbers(found), False) is not None:
        if len(found) == MOST:
            raise NotFound(f"more than {MOST} of its records end the batch, each for itself")
        done, fatal = _fatal(done, total, partial(_without, ends, left))
        cause = ends(fatal + 1, left, True)  # an outage does not come twice
        if cause is None:
            raise NotFound("with the same records it ends one time, and is done another")
        found.append((fatal, cause))
    return found


def _without(ends: Ends, left: list[int], count: int) -> str | None:
    return ends(count, left, False)


def _numbers(found: Sequence[tuple[int, str]]) -> list[int]:
    return [number for number, _ in found]


def _fatal(done: int, ends: int, why: Callable[[int], str | None]) -> tuple[int, int]:
    """Up to where all is well, and the number of the record that makes the difference."""
    while ends - done > 1:
        middle = (done + ends) // 2
        if why(middle) is None:
            done = middle
        else:
            ends = middle
    return ends, ends - 1


def first_of(ranges: Sequence[Range], count: int) -> tuple[Range, ...]:
    """The first so many offsets."""
    found = []
    for each in ranges:
        size = min(each.end - each.start, count)
        if size:
            found.append(each._replace(end=each.start + size))
        count -= size
    return tuple(found)


def place_of(ranges: Sequence[Range], number: int) -> RecordPlace:
    last = first_of(ranges, number + 1)[-1]
    return RecordPlace(*last.partition, last.end - 1)
