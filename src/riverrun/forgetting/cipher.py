"""The text that stands for a personal value: `rrp1:` and, in base64, whose it is and the cipher.

The cipher is AES-SIV: one key and one value give the same bytes, always. So a batch that is run
again gives what it gave, and grouping, joining and comparing need no key.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

PREFIX = "rrp1:"
KEY, SUBJECT = 64, 16
"""Bytes of a key (AES-256, and as much for the tag), and of what stands for a subject."""

WITHOUT_VALUE = len(PREFIX) + (SUBJECT * 8 + 5) // 6
"""How long a text is that tells whose it was, and nothing else: the others are longer."""

TEXT = b"t"
"""What the value is; it also gives an empty text a byte, which the cipher needs."""


def subject_of(secret: bytes, kind: str, subject: str) -> bytes:
    """What stands for a subject. Who has no secret cannot tell who it is."""
    named = f"{kind}\0{subject}".encode()
    return hmac.digest(secret, named, hashlib.sha256)[:SUBJECT]


def sealed(subject: bytes, key: bytes | None, value: str) -> str:
    """The text that stands for a value; without a key it tells whose it was, and nothing else."""
    if key is None:
        return PREFIX + _text(subject)
    # text of a record may hold halves of pairs, which are no characters
    data = TEXT + value.encode(errors="surrogatepass")
    return PREFIX + _text(subject + _cipher(key).encrypt(data, None))


def subject_in(text: str) -> bytes | None:
    """Whose it is; None if the text is no cipher."""
    found = _parts(text)
    return None if found is None else found[0]


def beginning(subject: bytes) -> str:
    """What all texts of a subject begin with, and no others. The last letter of what stands for it
    holds some bits of what follows."""
    return PREFIX + _text(subject)[:-1]


def opened(text: str, key: bytes) -> str | None:
    """The value; None if it was not made with the key."""
    found = _parts(text)
    if found is None or not found[1]:
        return None
    try:
        data = _cipher(key).decrypt(found[1], None)
    except InvalidTag:
        return None
    return data[len(TEXT) :].decode(errors="surrogatepass")


def _parts(text: str) -> tuple[bytes, bytes] | None:
    if not text.startswith(PREFIX):
        return None
    try:
        data = urlsafe_b64decode(text[len(PREFIX) :] + "==")
    except ValueError:
        return None
    # base64 takes more than one text for some bytes: only ours is one
    if len(data) < SUBJECT or _text(data) != text[len(PREFIX) :]:
        return None
    return data[:SUBJECT], data[SUBJECT:]


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


@lru_cache(maxsize=4096)
def _cipher(key: bytes) -> AESSIV:
    """To make one costs as much as to use it."""
    return AESSIV(key)
