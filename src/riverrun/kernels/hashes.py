"""Hashes from hashes: the same in every version and process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

SPREAD = 0x9E3779B97F4A7C15


def mixed(hashes: Hashes, salt: int = 0) -> Hashes:
    """Another hash from each, by salt (splitmix64)."""
    hashes = hashes + np.uint64(salt * SPREAD % 2**64)
    hashes = (hashes ^ hashes >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ hashes >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(hashes ^ hashes >> np.uint64(31), np.uint64)
