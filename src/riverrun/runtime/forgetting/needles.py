"""What is looked for: the forms that a value may have among other bytes.

While its key is there a value is known, and looked for as it is. For a run that goes on after that,
only hashes of the forms are kept, and every piece of the bytes that is as long as one is hashed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

SHORTEST = 4
"""Bytes: what is shorter is in any file, whoever wrote it."""
WORD = (1 << 64) - 1
BLOCK = 1 << 15
"""Bytes that are looked through at once for what is known by its hash."""


def forms(value: str) -> set[bytes]:
    """A text as it is, in JSON, in JSON within JSON, in base64, and as Java and Windows have it."""
    plain = value.encode(errors="surrogatepass")
    once = json.dumps(value)[1:-1]
    kept = json.dumps(value, ensure_ascii=False)[1:-1].encode(errors="surrogatepass")
    found = {
        plain, once.encode(), kept, json.dumps(once)[1:-1].encode(),
        value.encode("utf-16-le", errors="surrogatepass"),
        value.encode("utf-16-be", errors="surrogatepass"),
    }  # fmt: skip
    for shift in range(3):
        inside = _base64(plain, shift)
        found |= {inside, inside.replace(b"+", b"-").replace(b"/", b"_")}
    return {each for each in found if len(each) >= SHORTEST}


def _base64(data: bytes, shift: int) -> bytes:
    """What stands for the data wherever it begins, without signs that depend on its neighbours."""
    text = base64.b64encode(bytes(shift) + data).rstrip(b"=")
    end = len(text) - (1 if (shift + len(data)) % 3 else 0)
    found = text[(0, 2, 3)[shift] : end]
    return found if len(found) >= 2 * SHORTEST else b""


class Needles(ABC):
    """What is looked for in bytes."""

    short: int
    """Values that are not looked for."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Bytes of the longest form."""

    @abstractmethod
    def count(self) -> int:
        """How many forms there are."""

    @abstractmethod
    def inside(self, data: bytes) -> bool: ...


class Values(Needles):
    """Values that are known: in memory only."""

    def __init__(self, values: Iterable[str]) -> None:
        given = set(values)
        self.values = {each for each in given if len(each.encode(errors="replace")) >= SHORTEST}
        self.short = len(given) - len(self.values)
        self.forms = sorted({form for each in self.values for form in forms(each)})

    @property
    def longest(self) -> int:
        return max(map(len, self.forms), default=0)

    def count(self) -> int:
        return len(self.forms)

    def inside(self, data: bytes) -> bool:
        return any(form in data for form in self.forms)


@dataclass
class Hashes(Needles):
    """What is left of values: the length of each form, a sum that is quickly computed of every
    piece of that length, and a hash that tells for sure."""

    salt: bytes
    short: int = 0
    known: dict[int, dict[int, str]] = field(default_factory=dict)
    """By length, then by sum."""

    @classmethod
    def of(cls, values: Values) -> Hashes:
        made = cls(secrets.token_bytes(32), values.short)
        for form in values.forms:
            made.known.setdefault(len(form), {})[made.sum_of(form)] = made.hash_of(form)
        return made

    def text(self) -> str:
        known = [
            [size, total, each] for size, of in self.known.items() for total, each in of.items()
        ]
        return json.dumps({"salt": self.salt.hex(), "short": self.short, "known": known})

    @classmethod
    def read(cls, text: str) -> Hashes:
        noted = json.loads(text)
        made = cls(bytes.fromhex(noted["salt"]), noted["short"])
        for size, total, each in noted["known"]:
            made.known.setdefault(size, {})[total] = each
        return made

    @property
    def longest(self) -> int:
        return max(self.known, default=0)

    def count(self) -> int:
        return sum(map(len, self.known.values()))

    @property
    def base(self) -> int:
        """An odd number: only those can be divided by."""
        return int.from_bytes(self.salt[:8], "big") | 1

    def sum_of(self, form: bytes) -> int:
        return sum(sign * pow(self.base, place, 1 << 64) for place, sign in enumerate(form)) & WORD

    def hash_of(self, form: bytes) -> str:
        return hmac.digest(self.salt, form, hashlib.sha256).hex()

    def inside(self, data: bytes) -> bool:
        # small enough for the processor's own memory: the same arrays are used for each form
        parts = range(0, len(data), BLOCK)
        return any(self._in_block(data[n : n + BLOCK + self.longest - 1]) for n in parts)

    def _in_block(self, data: bytes) -> bool:
        powers, inverses = self._powers
        signs = np.frombuffer(data, np.uint8) * powers[: len(data)]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(signs)])
        for size, known in self.known.items():
            if size > len(data):
                continue
            # of a piece that begins later every place counts that much more
            pieces = (sums[size:] - sums[:-size]) * inverses[: len(data) - size + 1]
            for place in np.flatnonzero(self._tables[size][pieces >> np.uint64(48)]).tolist():
                hashed = known.get(int(pieces[place]))
                if hashed is not None and self.hash_of(data[place : place + size]) == hashed:
                    return True
        return False

    @cached_property
    def _powers(self) -> tuple[Any, Any]:
        """Of the base, and of what it is divided by."""
        count = BLOCK + self.longest
        return _powers(self.base, count), _powers(pow(self.base, -1, 1 << 64), count)

    @cached_property
    def _tables(self) -> dict[int, Any]:
        """By length: whether a sum begins with these 16 bits."""
        return {size: _begins(known) for size, known in self.known.items()}


class Several(Needles):
    """Those of both: some may be the same."""

    def __init__(self, known: Values, left: Hashes) -> None:
        self.parts = (known, left)
        self.short = max(each.short for each in self.parts)

    @property
    def longest(self) -> int:
        return max(each.longest for each in self.parts)

    def count(self) -> int:
        return max(each.count() for each in self.parts)

    def inside(self, data: bytes) -> bool:
        return any(each.inside(data) for each in self.parts)


def _begins(sums: Iterable[int]) -> Any:
    found = np.zeros(1 << 16, np.bool_)
    found[[each >> 48 for each in sums]] = True
    return found


def _powers(base: int, count: int) -> Any:
    return np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(count - 1, base, np.uint64)]))
