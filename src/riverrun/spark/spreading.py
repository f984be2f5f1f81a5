"""Rows that Spark is to give to a task of our choice: as many pages for each.

Spark gives a row to the task `hash(key) mod tasks`. Of the numbers 0 to 31 it gives 12 to one of
two tasks and 20 to the other, so one of them has nearly twice the work. Its hash of an integer
(MurmurHash3 of 32 bits, seed 42) can be turned around: what Spark hashes is the number whose hash
is the task that we want.

That a task's pages are neighbours is for sums of floating point: see `task_of`.
"""

from __future__ import annotations

from functools import cache

from riverrun.kernels.chunks import task_of

BITS, MASK = 32, (1 << 32) - 1
SEED, BYTES = 42, 4
KEY_FIRST, KEY_SECOND = 0xCC9E2D51, 0x1B873593
TIMES, PLUS = 5, 0xE6546B64
LAST_FIRST, LAST_SECOND = 0x85EBCA6B, 0xC2B2AE35
"""The numbers of MurmurHash3."""


@cache
def keys_of_tasks(pages: int, tasks: int) -> list[int]:
    """By page, what stands for its task where Spark deals rows."""
    return [key_of(task_of(page, pages, tasks)) for page in range(pages)]


def key_of(hashed: int) -> int:
    """The integer of which this is Spark's hash: its steps turned around, the last one first."""
    found = _folded(hashed & MASK, 16)
    found = _folded(_divided(found, LAST_SECOND), 13, 26)
    found = _folded(_divided(found, LAST_FIRST), 16) ^ BYTES
    found = _turned(_divided((found - PLUS) & MASK, TIMES), -13) ^ SEED
    found = _divided(_turned(_divided(found, KEY_SECOND), -15), KEY_FIRST)
    return found - (1 << BITS) if found >> BITS - 1 else found


def _turned(number: int, by: int) -> int:
    by %= BITS
    return (number << by | number >> BITS - by) & MASK


def _folded(number: int, *by: int) -> int:
    """A fold of at least half the bits is its own opposite; one of 13 is undone by 13 and 26."""
    found = number
    for each in by:
        found ^= number >> each
    return found


def _divided(number: int, by: int) -> int:
    return number * pow(by, -1, 1 << BITS) & MASK
