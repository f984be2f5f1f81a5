"""Keys at hand: values become texts that stand for them, and back."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riverrun import exact
from riverrun.arguments import shown
from riverrun.errors import InputError
from riverrun.forgetting import cipher
from riverrun.forgetting.store import Found, KeyStore

AT_HAND = 200_000
"""Keys that a process remembers."""


SEALED = re.compile(rf"{cipher.PREFIX}[A-Za-z0-9_-]{{22,}}")
GONE = "(forgotten)"
"""What stands inside of a text for what cannot be read any more."""

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

    def seal(
        self, kind: str, values: Sequence[tuple[str, str]], *, again: bool = False
    ) -> list[str]:
        """Texts that stand for values, each given with its subject.

        A value that looks like such a text is sealed like any other, since anybody may have written
        it. `again`: they come from where this application writes, too. One that stands for a value
        of its subject already is left as it is there.
        """
        for pair in values:
            if not all(isinstance(each, str) for each in pair):
                hint = 'the subject and the value, both text: ("42", "ann@example.org")'
                raise InputError("that cannot be sealed", got=shown(pair[0]), hint=hint)
        subjects = [self.subject(kind, subject) for subject, _ in values]
        keys = self._keys(set(subjects), make=True)
        seal = _once if again else cipher.sealed
        pairs = zip(subjects, values, strict=True)
        return [seal(subject, keys[subject], value) for subject, (_, value) in pairs]

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
            _read(text, keys[subject]) if text and subject and subject in keys else Read(text)
            for text, subject in zip(texts, subjects, strict=True)
        ]

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
        if cipher.PREFIX in value and cipher.subject_in(value) is None:
            return self._inside(value, path, forgotten)
        [found] = self.read([value])
        if found.forgotten:
            forgotten.append(path)
        return found.value

    def _inside(self, text: str, path: str, forgotten: list[str]) -> str:
        """Text that holds such texts: JSON, or what somebody has put together of them."""
        try:
            holds = exact.loads(text)
        except ValueError:
            holds = None
        if isinstance(holds, dict | list):
            return exact.dumps(self._revealed(holds, path, forgotten))
        read = {each: self.read([each])[0] for each in SEALED.findall(text)}
        if any(each.forgotten for each in read.values()):
            forgotten.append(path)
        return SEALED.sub(lambda each: read[each[0]].value or GONE, text)

    def forget(self, subject: bytes) -> None:
        """Destroys the key of what stands for a subject: `keys.subject("customer", "42")`."""
        if not isinstance(subject, bytes) or len(subject) != cipher.SUBJECT:
            hint = 'keys.forget(keys.subject("customer", "42"))'
            raise InputError("that stands for no subject", got=shown(subject), hint=hint)
        self.store.destroy(subject)

    def knows(self, subject: bytes) -> bool:
        """Whether there is a key of what stands for a subject, or was one."""
        return subject in self.store.find([subject])

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


def _read(text: str, key: bytes | None) -> Read:
    """What was sealed is given back as it came: it is not opened once more if it looks like a text
    that stands for a value, since whoever sent it could have had that from somebody else."""
    found = None if key is None else cipher.opened(text, key)
    gone = key is None or len(text) == cipher.WITHOUT_VALUE
    return Read(None, forgotten=True) if gone else Read(text if found is None else found)


def _alike(value: str | None, subjects: Sequence[tuple[bytes, bytes | None]]) -> str | None:
    if not subjects:
        return value
    if len(subjects) > 1:
        raise ValueError(TWO)
    [(subject, key)] = subjects
    nothing = value is None and key is not None
    return None if nothing else cipher.sealed(subject, key, value or "")


def _once(subject: bytes, key: bytes | None, value: str) -> str:
    """A text that stands for a value of the subject already is left as it is."""
    own = cipher.subject_in(value) == subject
    if own and (key is None or cipher.opened(value, key) is not None):
        return value
    return cipher.sealed(subject, key, value)
