"""Where keys are: what a store is, and the one of tests, in memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from riverrun.forgetting.cipher import KEY

Found = Mapping[bytes, bytes | None]
"""Keys by subject; None where the key was destroyed."""


class KeyStore(ABC):
    """The keys of one application, by what stands for their subjects.

    Several processes use it at once: a key is made once, whoever comes first.
    """

    @abstractmethod
    def secret(self) -> bytes:
        """Made with the store, and never changed."""

    @abstractmethod
    def find(self, subjects: Collection[bytes]) -> Found:
        """Of those subjects that are known."""

    @abstractmethod
    def make(self, subjects: Collection[bytes]) -> Found:
        """The same of all: those that are not known get a key. One that was destroyed stays so."""

    @abstractmethod
    def destroy(self, subject: bytes) -> None:
        """From here on nobody gets the key; once this returns, no file of the store holds it. Of a
        key that was destroyed before, what a kill has left of it goes."""

    @abstractmethod
    def destroyed(self) -> int:
        """How many keys were: what is known of keys holds while this is the same."""

    def close(self) -> None:  # noqa: B027 - most hold nothing that others could touch
        """Gives back what it holds open; it is opened again when it is asked next."""


class MemoryStore(KeyStore):
    """Of the test driver, and of programs that are tried. Its keys follow from the subjects, so
    that several processes have the same: they keep nothing secret."""

    def __init__(self) -> None:
        self.gone: set[bytes] = set()
        self.known: set[bytes] = set()

    def secret(self) -> bytes:
        return b"in memory"

    def find(self, subjects: Collection[bytes]) -> Found:
        return {each: self._key(each) for each in subjects if each in self.known}

    def make(self, subjects: Collection[bytes]) -> Found:
        self.known.update(subjects)
        return self.find(subjects)

    def _key(self, subject: bytes) -> bytes | None:
        return None if subject in self.gone else hashlib.sha512(subject).digest()[:KEY]

    def destroy(self, subject: bytes) -> None:
        self.known.add(subject)
        self.gone.add(subject)

    def destroyed(self) -> int:
        return len(self.gone)
