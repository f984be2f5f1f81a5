"""Small tools over arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


def ranges(first: Numbers, size: Numbers) -> Numbers:
    """first[0], first[0] + 1, … size[0] of them, then those of first[1], and so on."""
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - ends + size, size) + np.arange(total)


def from_sizes(sizes: Numbers | list[int]) -> Numbers:
    """Where each of the lists of these sizes begins; the last is the end of all."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])


def firsts(sorted_: Numbers) -> Truths:
    """Which numbers of a sorted array are other than the one before."""
    first = np.ones(len(sorted_), np.bool_)
    first[1:] = sorted_[1:] != sorted_[:-1]
    return first
