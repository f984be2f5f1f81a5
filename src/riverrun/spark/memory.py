"""What a task took of memory goes back to the system after it.

The C library keeps what is freed for whoever asks next. Lots, chunks and encoded records are of
other sizes each time, so that in the end a process would keep several times what any batch needs.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

ENOUGH = 384 << 20
"""Bytes that a process may have, whatever of them is free: they will be wanted again, and the
system makes each page anew, which costs some hundredths of what a batch does."""
GROWN = 32 << 20
"""Bytes more than after the last time: fewer are not worth the look for them."""


class Freed:
    """What this process holds for nobody."""

    def __init__(self) -> None:
        self.least = _resident()

    def give_back(self) -> None:
        """Takes some milliseconds, where there is much of it."""
        if _resident() > max(ENOUGH, self.least + GROWN):
            self.trim()

    def trim(self) -> None:
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
        self.least = _resident()


def _resident() -> int:
    """Bytes of memory that this process has; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
