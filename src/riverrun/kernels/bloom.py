"""A Bloom filter over 64-bit hashes: it may take a new one for a known one, never the reverse."""

from __future__ import annotations

import math
import struct

import numpy as np
import numpy.typing as npt

from riverrun.kernels.hashes import Hashes, mixed

HEADER = struct.Struct("<Qd")

Answers = npt.NDArray[np.bool_]


class BloomFilter:
    """Room for `capacity` hashes; filled so far, it is wrong in at most `error` of the answers."""

    def __init__(self, capacity: int, error: float) -> None:
        if capacity < 1 or not 0 < error < 1:
            raise ValueError(f"no Bloom filter for {capacity} hashes with an error of {error}")
        self.capacity, self.error = capacity, error
        per_hash = -math.log(error) / math.log(2) ** 2
        self.places = math.ceil(capacity * per_hash / 64) * 64
        self.probes = max(1, round(per_hash * math.log(2)))
        self.bits = np.zeros(self.places // 8, np.uint8)

    def add(self, hashes: Hashes) -> None:
        for place in self._probed(hashes):
            np.bitwise_or.at(self.bits, place >> 3, _bit(place))

    def contains(self, hashes: Hashes) -> Answers:
        found = np.ones(len(hashes), np.bool_)
        for place in self._probed(hashes):
            found &= (self.bits[place >> 3] & _bit(place)) != 0
        return found

    def seen(self, hashes: Hashes) -> Answers:
        """Adds the hashes in order, and says of each whether it was there before."""
        found = self.contains(hashes)
        first = np.unique(hashes, return_index=True)[1]
        again = np.ones(len(hashes), np.bool_)
        again[first] = False
        self.add(hashes[first][~found[first]])
        return np.asarray(found | again)

    def union(self, other: BloomFilter) -> BloomFilter:
        """A filter with the hashes of both."""
        if (self.capacity, self.error) != (other.capacity, other.error):
            raise ValueError("Bloom filters of different capacity or error cannot be united")
        made = BloomFilter(self.capacity, self.error)
        made.bits = self.bits | other.bits
        return made

    def to_bytes(self) -> bytes:
        return HEADER.pack(self.capacity, self.error) + self.bits.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> BloomFilter:
        made = cls(*HEADER.unpack_from(data))
        made.bits = np.frombuffer(data, np.uint8, offset=HEADER.size).copy()
        return made

    def _probed(self, hashes: Hashes) -> list[npt.NDArray[np.int64]]:
        """The places of each hash, one array per probe: two hashes make any number (Kirsch and
        Mitzenmacher)."""
        start, stride = mixed(hashes, salt=1), mixed(hashes, salt=2) | np.uint64(1)
        places = np.uint64(self.places)
        return [
            ((start + np.uint64(probe) * stride) % places).astype(np.int64)
            for probe in range(self.probes)
        ]


def _bit(place: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return np.asarray(1 << (place & 7), np.uint8)
