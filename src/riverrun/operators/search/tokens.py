"""Texts of many documents cut into words at once, by arrays of their characters.

A word is a run of letters, digits and the marks that belong to them. Chinese, Japanese and Korean
are not told apart by spaces: every two characters that follow each other are a word, and so is the
last one of a run.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from riverrun.sinks.fulltext.analysis import UNSPACED, composed

Numbers = npt.NDArray[np.int64]
OTHER, WORD, UNSPACED_WORD = 0, 1, 2
BREAK = "\n"
"""Between documents: no word has it."""
PAIR = 1 << 21
"""More than there are characters."""


@dataclass
class Tokens:
    """The words of one column of text, document after document."""

    text: str
    """Of all documents."""
    text_from: Numbers
    """Where each document begins in it; the last is the end of all, and a break."""
    doc: Numbers
    """Of each word: its document."""
    starts: Numbers
    ends: Numbers
    codes: Numbers
    """Which of the different words it is."""
    words: list[str]
    """The different ones, as they are written but for the capitals from A to Z."""


def cut(texts: Sequence[str | None]) -> Tokens:
    """The words of documents; a text that is null has none."""
    whole = [composed(text) if text else "" for text in texts]
    text = BREAK.join(whole) + BREAK
    text_from = np.append(0, np.cumsum([len(each) + 1 for each in whole]))
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[letters]
    starts, ends = _runs(kinds == WORD)
    codes, words = _different(letters, kinds, starts, ends)
    if (kinds == UNSPACED_WORD).any():
        starts, ends, codes, words = _with_pairs(letters, kinds, (starts, ends, codes, words))
    counts = np.diff(np.searchsorted(starts, text_from))
    doc = np.repeat(np.arange(len(whole)), counts)
    return Tokens(text, text_from, doc, starts, ends, codes, words)


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """What each character is, by its number."""
    kinds = np.zeros(0x110000, np.uint8)
    for number in range(0x110000):
        letter = chr(number)
        if unicodedata.category(letter)[0] in "LNM":
            kinds[number] = UNSPACED_WORD if UNSPACED.fullmatch(letter) else WORD
        elif UNSPACED.fullmatch(letter):
            kinds[number] = UNSPACED_WORD
    return kinds


def _runs(inside: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Where runs begin and end. The last character is outside."""
    change = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if len(inside) and inside[0]:
        change = np.append(0, change)
    return change[::2].astype(np.int64), change[1::2].astype(np.int64)


def _different(
    letters: npt.NDArray[np.uint32], kinds: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers
) -> tuple[Numbers, list[str]]:
    """The different words, and which of them each one is."""
    if not len(starts):
        return np.empty(0, np.int64), []
    own = letters[kinds == WORD]
    own = own + 32 * ((own >= ord("A")) & (own <= ord("Z"))).astype(np.uint32)
    data = own.tobytes().decode("utf-32-le", "surrogatepass").encode("utf-8", "surrogatepass")
    places = np.append(0, np.cumsum(ends - starts))
    if len(data) > len(own):  # not all are ASCII
        size = 1 + (own > 0x7F).astype(np.int64) + (own > 0x7FF) + (own > 0xFFFF)
        places = np.append(0, np.cumsum(size))[places]
    buffers = [None, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(data)]
    coded = pa.StringArray.from_buffers(len(starts), *buffers[1:]).dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def _with_pairs(
    letters: npt.NDArray[np.uint32],
    kinds: npt.NDArray[np.uint8],
    words: tuple[Numbers, Numbers, Numbers, list[str]],
) -> tuple[Numbers, Numbers, Numbers, list[str]]:
    """The same with the pairs of runs that have no spaces, in the order of the text."""
    starts, ends, codes, known = words
    at = np.flatnonzero(kinds == UNSPACED_WORD).astype(np.int64)
    followed = kinds[at + 1] == UNSPACED_WORD
    pairs = letters[at].astype(np.int64) * PAIR + np.where(followed, letters[at + 1], 0)
    different, own = np.unique(pairs, return_inverse=True)
    names = [chr(p // PAIR) + (chr(p % PAIR) if p % PAIR else "") for p in different.tolist()]
    order = np.argsort(np.concatenate([starts, at]), kind="stable")
    return (
        np.concatenate([starts, at])[order],
        np.concatenate([ends, at + 1 + followed])[order],
        np.concatenate([codes, own + len(known)])[order],
        [*known, *names],
    )
