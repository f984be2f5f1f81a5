"""Documents of 200 words, and stored queries, of one vocabulary: words are as rare as in texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

WORDS, LENGTH = 100_000, 200
"""Different words, and those of a document."""
PRICES, SENTENCE = 1_000, 12
START = 1_767_225_600_000
SCHEMA = "id bigint, body string, price bigint, at timestamp_ms"
Ranks = npt.NDArray[np.int64]
SYLLABLES = [c + v for c in "tnsrlhdcmfpgwybvkxjq" for v in "aeiou"]
KINDS = {"word": 0.15, "words": 0.4, "phrase": 0.2, "brackets": 0.1, "prefix": 0.1, "range": 0.05}
NOWHERE = "zzz"
"""The beginning of words that no document has."""


@cache
def vocabulary() -> list[str]:
    """The most common words first, and shorter."""
    found = []
    for number in range(WORDS):
        parts, left = [], number + len(SYLLABLES)
        while left:
            left, last = divmod(left, len(SYLLABLES))
            parts.append(SYLLABLES[last])
        found.append("".join(parts))
    return found


def ranks(count: int, seed: int = 2) -> Ranks:
    """The words of documents, by number."""
    share = 1 / (np.arange(WORDS) + 2.7)
    return np.random.default_rng(seed).choice(WORDS, (count, LENGTH), p=share / share.sum())


def documents(chosen: Ranks) -> Iterator[bytes]:
    words, dice = vocabulary(), np.random.default_rng(5)
    prices = dice.integers(0, PRICES, len(chosen)).tolist()
    for number, row in enumerate(chosen.tolist()):
        parts = [words[each] for each in row]
        for at in range(0, LENGTH, SENTENCE):
            parts[at] = parts[at].capitalize()
            parts[at - 1] += "."
        made = {"id": number, "body": " ".join(parts), "price": prices[number]}
        yield json.dumps({**made, "at": START + 10 * number}).encode()


class Queries:
    """Queries of each kind, for words that are rare as often as for common ones."""

    def __init__(self, chosen: Ranks, seed: int = 3) -> None:
        self.chosen, self.dice = chosen, np.random.default_rng(seed)

    def take(self, count: int) -> list[str]:
        kinds = self.dice.choice(list(KINDS), count, p=list(KINDS.values()))
        return [self._made(kind) for kind in kinds.tolist()]

    def _word(self, first: int = 100) -> str:
        rank = np.exp(self.dice.uniform(np.log(first), np.log(WORDS - 1)))
        return vocabulary()[int(rank)]

    def _phrase(self) -> str:
        size = int(self.dice.integers(2, 4))
        while True:
            doc, at = self.dice.integers(len(self.chosen)), self.dice.integers(LENGTH - size)
            found = self.chosen[doc, at : at + size]
            if (found >= 50).any():
                return " ".join(vocabulary()[each] for each in found.tolist())

    def _made(self, kind: str) -> str:
        match kind:
            case "word":
                return self._word(10_000)
            case "words":
                return " ".join(self._word() for _ in range(self.dice.integers(2, 4)))
            case "phrase":
                return f'"{self._phrase()}"'
            case "brackets":
                either = f"({self._word()} OR {self._word()})"
                return f"{self._word()} {either} -{self._word(50)}"
            case "prefix":
                return f"{self._word(1000)[:5]}* {self._word()}"
            case "range":
                low = int(self.dice.integers(0, PRICES - 100))
                return f"{self._word(1000)} price:[{low} TO {low + 100}]"
            case _:
                raise ValueError(kind)


def with_rare_words(queries: list[str]) -> list[str]:
    """The same, each with a word that no document has: they find nothing."""
    return [f"({query}) {NOWHERE}{number}" for number, query in enumerate(queries)]
