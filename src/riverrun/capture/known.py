"""All captures of this home, whatever does them."""

from __future__ import annotations

from riverrun.capture.capturer import Capturer
from riverrun.capture.own import own_captures
from riverrun.config import Settings
from riverrun.errors import InputError


def captures(settings: Settings) -> list[Capturer]:
    return [*own_captures(settings)]


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
