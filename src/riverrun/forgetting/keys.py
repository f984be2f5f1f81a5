"""Keys at hand: values become texts that stand for them, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riverrun.forgetting import cipher
from riverrun.forgetting.store import Found, KeyStore

AT_HAND = 200_000
"""Keys that a process remembers."""


TWO = "it is computed from personal values of two subjects"


class Read(NamedTuple):
    """What a text stands for."""

    value: str | None
    forgotten: bool = False
    """Whether there was a value that nobody can read any more."""


@dataclass(frozen=True)
class Revealed:
    """A value made of such texts, with those replaced by what they stand for."""

    value: Any
    forgotten: list[str]
    """Where nulls stand for what is forgotten: `email`, `items[0].name`."""


class Keys:
    """The keys of one application. What is remembered of a key ends with its subject."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store
        self.known: dict[bytes, bytes | None] = {}
        self.names: dict[tuple[str, str], bytes] = {}
        self.destroyed = -1
        self._secret: bytes | None = None

    def subject(self, kind: str, subject: str) -> bytes:
        """What stands for a subject."""
        found = self.names.get((kind, subject))
        if found is None:
            self._secret = self._secret or self.store.secret()
            if len(self.names) >= AT_HAND:
                self.names.clear()
            found = self.names[kind, subject] = cipher.subject_of(self._secret, kind, subject)
        return found

    def seal(self, kind: str, values: Sequence[tuple[str, str]]) -> list[str]:
        """Texts that stand for values, each given with its subject."""
        subjects = [self.subject(kind, subject) for subject, _ in values]
        keys = self._keys(set(subjects), make=True)
        pairs = zip(subjects, values, strict=True)
        return [_once(subject, keys[subject], value) for subject, (_, value) in pairs]

    def seal_alike(self, made: Sequence[tuple[str | None, str]]) -> list[str | None]:
        """What is computed of sealed texts is their subject's, too: each is given with the texts,
        that have spaces between them."""
        subjects = [{cipher.subject_in(each) for each in sealed.split(" ")} for _, sealed in made]
        keys = self._keys({each for found in subjects for each in found if each is not None})
        pairs = zip(made, subjects, strict=True)
        return [
            _alike(
                value, [(each, keys[each]) for each in found if each is not None and each in keys]
            )
            for (value, _), found in pairs
        ]

    def read(self, texts: Sequence[str | None]) -> list[Read]:
        """What texts stand for; any other text is itself, also one of another store."""
        subjects = [None if each is None else cipher.subject_in(each) for each in texts]
        keys = self._keys({each for each in subjects if each is not None})
        return [
            self._read(text, keys[subject]) if text and subject and subject in keys else Read(text)
            for text, subject in zip(texts, subjects, strict=True)
        ]

    def _read(self, text: str, key: bytes | None) -> Read:
        found = None if key is None else cipher.opened(text, key)
        if found is None:
            return Read(None, forgotten=True)
        # a value that was sealed before it came here is two subjects' own
        return self.read([found])[0] if cipher.subject_in(found) else Read(found)

    def reveal(self, value: Any) -> Revealed:
        """A value, such as a row or what JSON gives, with all texts in it read."""
        forgotten: list[str] = []
        return Revealed(self._revealed(value, "", forgotten), forgotten)

    def _revealed(self, value: Any, path: str, forgotten: list[str]) -> Any:
        if isinstance(value, dict):
            return {
                name: self._revealed(each, f"{path}.{name}" if path else str(name), forgotten)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._revealed(each, f"{path}[{n}]", forgotten) for n, each in enumerate(value)]
        if not isinstance(value, str):
            return value
        [found] = self.read([value])
        if found.forgotten:
            forgotten.append(path)
        return found.value

    def forget(self, subject: bytes) -> None:
        """Destroys the key of what stands for a subject."""
        self.store.destroy(subject)

    def forgotten(self, subject: bytes) -> bool:
        found = self.store.find([subject])
        return subject in found and found[subject] is None

    def _keys(self, subjects: Collection[bytes], *, make: bool = False) -> Found:
        destroyed = self.store.destroyed()
        if destroyed != self.destroyed or len(self.known) > AT_HAND:
            self.known.clear()
        self.destroyed = destroyed
        missing = [each for each in subjects if each not in self.known]
        if missing:
            found = dict(self.store.find(missing))
            new = [each for each in missing if each not in found]
            self.known |= found | dict(self.store.make(new) if make and new else {})
        return {each: self.known[each] for each in subjects if each in self.known}


def _alike(value: str | None, subjects: Sequence[tuple[bytes, bytes | None]]) -> str | None:
    if not subjects:
        return value
    if len(subjects) > 1:
        raise ValueError(TWO)
    [(subject, key)] = subjects
    nothing = value is None and key is not None
    return None if nothing else cipher.sealed(subject, key, value or "")


def _once(subject: bytes, key: bytes | None, value: str) -> str:
    """A text that stands for the subject's value already is left as it is: it may have been
    written by this application, and read again."""
    own = cipher.subject_in(value) == subject
    if own and (key is None or cipher.opened(value, key) is not None):
        return value
    return cipher.sealed(subject, key, value)
