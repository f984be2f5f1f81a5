"""Where the records of a text file are: found once, block by block, and again in any piece of it.

A record of a CSV file may have line breaks inside of quotes: a line ends where the number of quotes
before it is even. Empty lines are no records.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

PIECE = 1 << 16
"""Records between two whose places are remembered."""
BLOCK = 1 << 26
"""Bytes that are looked at together."""
BREAK, RETURN, QUOTE = b'\n\r"'

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


def contents(path: Path, start: int = 0, end: int | None = None) -> Bytes:
    """The bytes of a part of a file, as they are needed."""
    if path.stat().st_size == 0:
        return np.empty(0, np.uint8)
    whole: Bytes = np.memmap(path, np.uint8, mode="r")
    return whole[start:end]


def records(data: Bytes, *, quoted: bool, skip: int = 0) -> Iterator[tuple[Places, Places]]:
    """Beginnings and ends of records, block by block; `skip` leaves out the first ones."""
    begin, quotes_before = 0, 0
    for low in range(0, len(data), BLOCK):
        block = data[low : low + BLOCK]
        breaks = np.flatnonzero(block == BREAK)
        if quoted:
            quotes = np.flatnonzero(block == QUOTE)
            outside = (quotes_before + np.searchsorted(quotes, breaks)) % 2 == 0
            breaks, quotes_before = breaks[outside], quotes_before + len(quotes)
        ends = breaks + low
        if low + BLOCK >= len(data) and (not len(ends) or ends[-1] < len(data) - 1):
            ends = np.append(ends, len(data))  # the last line need not end
        if not len(ends):
            continue
        starts = np.concatenate([[begin], ends[:-1] + 1])
        begin = int(ends[-1]) + 1
        full = _full(data, starts, ends)
        starts, ends = starts[full], ends[full]
        yield starts[skip:], ends[skip:]
        skip = max(skip - len(starts), 0)


def _full(data: Bytes, starts: Places, ends: Places) -> npt.NDArray[np.bool_]:
    size = ends - starts
    found = size > 1
    single = np.flatnonzero(size == 1)
    found[single] = data[starts[single]] != RETURN
    return np.asarray(found)


def indexed(path: Path, *, quoted: bool, header: bool) -> tuple[int, list[int]]:
    """How many records a file has, and where each of PIECE begins."""
    count, places = 0, list[int]()
    for starts, _ in records(contents(path), quoted=quoted, skip=1 if header else 0):
        places += starts[-count % PIECE :: PIECE].tolist()
        count += len(starts)
    return count, places


def first_record(path: Path, *, quoted: bool) -> bytes:
    data = contents(path)
    for starts, ends in records(data[: 1 << 20], quoted=quoted):
        return data[starts[0] : ends[0]].tobytes()
    return b""
