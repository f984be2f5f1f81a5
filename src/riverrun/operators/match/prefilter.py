"""Which keys have to be searched at all: all keys of a page at once, in numpy.

Sets of positions are bits of a number. Going backwards, a row further for all keys in each step:
from which positions a match could be complete, and from which a path reaches the end of the rows.
Deadlines and conditions on earlier rows are left aside, so this finds too much, never too little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt

from riverrun.operators.match.automaton import MATCH, TIMEOUT, Automaton

Numbers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
POSITIONS = 64
"""That a set holds: an automaton with more is searched at once."""
LONG = 512
"""Keys with more rows than this are searched at once: a step should be of many keys."""


@dataclass(frozen=True)
class Keys:
    """Rows sorted by key and time, and where each key begins and ends."""

    at: Numbers
    mask: Numbers
    begins: Numbers
    ends: Numbers
    clocks: Numbers
    """How far time has come, for each key."""


@dataclass(frozen=True)
class Tables:
    by_variable: tuple[tuple[int, np.uint64], ...]
    """Variables as bits, with the positions that they stand at."""
    before: tuple[npt.NDArray[np.uint64], ...]
    """Byte by byte: from a set of positions to those that they may follow."""
    first: np.uint64
    ends: np.uint64
    goes_on: np.uint64
    times_out: np.uint64


@lru_cache(maxsize=64)
def tables(automaton: Automaton) -> Tables:
    m, follow = len(automaton.var), automaton.follow
    before = [_bits(p for p in range(m) if t in follow[p]) for t in range(m)]
    by_byte = []
    for byte in range(0, m, 8):
        table = np.zeros(256, np.uint64)
        for value in range(256):
            members = (byte + b for b in range(8) if value >> b & 1 and byte + b < m)
            table[value] = reduce(or_, (before[t] for t in members), 0)
        by_byte.append(table)
    variables = sorted(set(automaton.var))
    return Tables(
        tuple(
            (v, np.uint64(_bits(p for p in range(m) if automaton.var[p] == v))) for v in variables
        ),
        tuple(by_byte),
        np.uint64(_bits(t for t in automaton.first if t >= 0)),
        np.uint64(_bits(p for p in range(m) if MATCH in follow[p])),
        np.uint64(_bits(p for p in range(m) if any(t != MATCH for t in follow[p]))),
        np.uint64(_bits(p for p in range(m) if TIMEOUT in follow[p])),
    )


def _bits(positions: Any) -> int:
    return sum(1 << p for p in positions)


def looked_through(automaton: Automaton, keys: Keys, within: int) -> tuple[Truths, Numbers]:
    """Whether each key has to be searched; if not, the first of its rows that is still needed."""
    count = len(keys.begins)
    searched, needed = np.zeros(count, np.bool_), keys.ends.copy()
    if not count:
        return searched, needed
    starting = np.bitwise_or.reduceat(keys.mask, keys.begins) & automaton.first_mask
    chosen = np.flatnonzero(starting)
    length = keys.ends[chosen] - keys.begins[chosen]
    long = (length > LONG) | (len(automaton.var) > POSITIONS)
    searched[chosen[long]] = True
    chosen, length = chosen[~long], length[~long]
    if len(chosen):
        order = np.argsort(-length, kind="stable")
        _backwards(tables(automaton), keys, within, chosen[order], (searched, needed))
    return searched, needed


def _backwards(
    table: Tables, keys: Keys, within: int, chosen: Numbers, result: tuple[Truths, Numbers]
) -> None:
    """`chosen`: keys, the longest first."""
    searched, needed = result
    allowed = np.zeros(len(keys.mask), np.uint64)
    for v, positions in table.by_variable:
        allowed |= np.where(keys.mask >> v & 1, positions, np.uint64(0))
    end, begin, clock = keys.ends[chosen], keys.begins[chosen], keys.clocks[chosen]
    length, following = end - begin, clock.copy()
    live = np.searchsorted(-length, -np.arange(1, length[0] + 1), side="right").tolist()
    complete, reaches = np.zeros(len(chosen), np.uint64), np.zeros(len(chosen), np.uint64)
    hit, first = np.zeros(len(chosen), np.bool_), end.copy()
    for step, n in enumerate(live):
        row = end[:n] - 1 - step
        here, at = allowed[row], keys.at[row]
        now = here & (_before(table, complete[:n]) | table.ends)
        if table.times_out:
            quiet = following[:n] > keys.at[begin[:n]] + within
            now |= np.where(quiet, here & table.times_out, np.uint64(0))
            following[:n] = at
        onwards = here & (table.goes_on if step == 0 else _before(table, reaches[:n]))
        complete[:n], reaches[:n] = now, onwards
        hit[:n] |= (now & table.first) != 0
        is_open = ((onwards & table.first) != 0) & (at + within >= clock[:n])
        first[:n][is_open] = row[is_open]
    searched[chosen], needed[chosen] = hit, first


def _before(table: Tables, sets: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    found: npt.NDArray[np.uint64] = table.before[0][sets & np.uint64(255)]
    for byte, each in enumerate(table.before[1:], 1):
        found |= each[(sets >> np.uint64(8 * byte)) & np.uint64(255)]
    return found
