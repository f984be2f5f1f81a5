"""That the keys of an application are those that it had.

With another store nothing that was written could be read, and who was forgotten would not be known.
"""

from __future__ import annotations

from collections.abc import Callable

from riverrun import private
from riverrun.errors import ConfigError
from riverrun.far import AnyPath
from riverrun.forgetting import KeyPlace, Keys

NOTE = "keys"
"""What a checkpoint has of its store: a name that follows from its secret."""

ANOTHER = "the keys of the application are not those that it had"


def require_same(folder: AnyPath, place: KeyPlace) -> None:
    """Of an application that has run: to look for a store must not make one."""
    if not place.there or not _same(folder, place):
        raise _another(place)


def note_store(
    folder: AnyPath, place: KeyPlace, tell: Callable[[str], None], *, fresh: bool
) -> None:
    """Before anything is sealed. Who starts over may do so with another store."""
    if not _same(folder, place):
        if not fresh:
            raise _another(place)
        tell(f"warning: {ANOTHER}: who was forgotten before is not known to be")
    private.write(private.folder(folder) / NOTE, _name(place))


def _another(place: KeyPlace) -> ConfigError:
    return ConfigError(
        ANOTHER,
        where=place.text,
        got="another store" if place.there else "no store",
        hint="take it from where it was backed up, or say where it is: keys = … in riverrun.toml, "
        "or RIVERRUN_KEYS. If it is lost, everybody is forgotten: `riverrun run --fresh` starts "
        "over",
    )


def _same(folder: AnyPath, place: KeyPlace) -> bool:
    note = folder / NOTE
    return not note.exists() or (place.there and note.read_text() == _name(place))


def _name(place: KeyPlace) -> str:
    return Keys(place.store()).subject("store", "").hex()
