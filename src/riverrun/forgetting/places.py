"""Where the keys of an application are: plain data, that travels to workers."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from riverrun.config import Settings, named
from riverrun.errors import ConfigError
from riverrun.forgetting.sqlite import SqliteStore
from riverrun.forgetting.store import KeyStore, MemoryStore

MEMORY, POSTGRESQL, OWN = "memory", "postgresql://", "python:"


@dataclass(frozen=True)
class KeyPlace:
    application: str = ""
    address: str = field(default=MEMORY, repr=False)
    """A file, the address of a PostgreSQL, `python:module:Store`, or MEMORY."""

    @property
    def text(self) -> str:
        """For people: without a password."""
        postgresql = self.address.startswith(POSTGRESQL)
        return "riverrun_keys in PostgreSQL" if postgresql else self.address

    @property
    def there(self) -> bool:
        """Whether there is a store; one that is looked at should not be made by that."""
        return self.address.startswith((POSTGRESQL, OWN)) or Path(self.address).exists()

    def store(self) -> KeyStore:
        """The one of this process."""
        return _store(self)


def place_of(settings: Settings, application: str) -> KeyPlace:
    """Where the settings say that an application's keys are."""
    file = settings.home / "keys" / f"{named(application)}.db"
    return KeyPlace(application, settings.keys or str(file))


@cache
def _store(place: KeyPlace) -> KeyStore:
    if place.address == MEMORY:
        return MemoryStore()
    if place.address.startswith(POSTGRESQL):
        # programs without it do without its client
        from riverrun.forgetting.postgresql import PostgresStore  # noqa: PLC0415

        return PostgresStore(place.address, place.application)
    if place.address.startswith(OWN):
        return _own(place)
    return SqliteStore(Path(place.address))


def _own(place: KeyPlace) -> KeyStore:
    """A store of one's own: a class, or a function, that is given the application's name."""
    _, module, name = [*place.address.split(":"), "", ""][:3]
    try:
        made = getattr(importlib.import_module(module), name)(place.application)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        hint = 'keys = "python:module:Store", and Store("shop") gives a KeyStore'
        raise ConfigError("the store of keys cannot be made", got=error, hint=hint) from error
    if not isinstance(made, KeyStore):
        raise ConfigError("the store of keys is none", got=f"{place.address} gave {made!r:.100}")
    return made
