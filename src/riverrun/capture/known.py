"""All captures of this home, whatever does them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riverrun.capture.capturer import By, Capturer
from riverrun.capture.files import all_files
from riverrun.config import Settings
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.capture.connect import ConnectCapturer
    from riverrun.capture.own import OwnCapturer


def captures(settings: Settings) -> list[Capturer]:
    found = [(files.folder.name, files.wish()) for files in all_files(settings)]
    return [capturer_of(settings, name, by=wish.by) for name, wish in found if wish is not None]


def capturer_of(
    settings: Settings, name: str, database: str | None = None, *, by: By
) -> OwnCapturer | ConnectCapturer:
    # the clients of databases only where a table is captured: every run asks here
    if by == "connect":
        from riverrun.capture.connect import ConnectCapturer  # noqa: PLC0415

        return ConnectCapturer(settings, name, database)
    from riverrun.capture.own import OwnCapturer  # noqa: PLC0415

    return OwnCapturer(settings, name, database)


def capture_named(settings: Settings, name: str | None) -> Capturer:
    """The capture of a name; without one, the only one there is."""
    found = {each.name: each for each in captures(settings)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        known = f"there are: {', '.join(found)}" if found else "app.capture(…) makes one"
        what = f"there is no capture {name!r}" if name else "which capture?"
        raise InputError(what, hint=known)
    return found[name]
