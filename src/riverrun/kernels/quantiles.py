"""A KLL quantile sketch over a multiset, without chance: the same input gives the same bytes.

The sketch of DataSketches flips coins that cannot be seeded, so a batch that is run again would
give other results. Here the sketch is a multiset of value and n. Bit h of n says whether the value
is an item of level h, where an item stands for 2^h rows. Summing equal values is then lossless (two
equal items of one level are one item of the next), and with few values the sketch is exact.

When there are too many values, the lowest level above its capacity is compacted: every second of
its items goes up a level, the others leave. Which half it is, is read from a hash of the number of
rows and the level, in place of a coin.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riverrun.kernels.hashes import mixed

K = 200
"""Items of the highest level: the rank error is about 1.33 % then, with 99 % confidence."""
LIMIT = 3 * K
"""As many values are kept before anything is compacted."""
SMALLEST = 8
SHRINKING = 2 / 3
"""How much smaller each level is than the one above."""

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def shrunk(values: Values, counts: Counts) -> tuple[Values, Counts]:
    """The sketch within its limit; `values` are sorted."""
    if len(values) <= LIMIT:
        return values, counts
    counts, total, step = counts.copy(), int(counts.sum()), 0
    while (level := _overfull(counts)) is not None:
        _compact(counts, level, _coin(total, level, step))
        step += 1
    kept = counts > 0
    return values[kept], counts[kept]


def _overfull(counts: Counts) -> int | None:
    """The lowest level above its capacity, if all levels together are."""
    height = int(counts.max()).bit_length()
    sizes = [int(((counts >> level) & 1).sum()) for level in range(height)]
    capacities = [
        max(SMALLEST, int(K * SHRINKING ** (height - 1 - level))) for level in range(height)
    ]
    if sum(sizes) <= sum(capacities):
        return None
    return next(level for level in range(height) if sizes[level] > capacities[level])


def _compact(counts: Counts, level: int, coin: int) -> None:
    places = np.flatnonzero((counts >> level) & 1)
    if len(places) % 2:
        # one item stays, at either end
        places = places[1:] if coin & 2 else places[:-1]
    counts[places[coin & 1 :: 2]] += 1 << level
    counts[places[1 - (coin & 1) :: 2]] -= 1 << level


def _coin(total: int, level: int, step: int) -> int:
    """Bits that look random, but are the same every time."""
    return int(mixed(np.array([total], np.uint64), salt=level << 32 | step)[0])
