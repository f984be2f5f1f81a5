"""What is personal in what commands show, read with the keys of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from riverrun.config import Settings
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.forgetting import Keys


reveal_option = click.option(
    "--reveal", is_flag=True, help="Read what is personal; null is what was forgotten."
)


def keys_of(settings: Settings, application: str) -> Keys:
    from riverrun.forgetting import Keys  # noqa: PLC0415 - help needs no cipher
    from riverrun.forgetting.places import place_of  # noqa: PLC0415

    place = place_of(settings, application)
    if not place.there:
        raise InputError(
            f"the application {application!r} has no keys here",
            where=place.text,
            hint="has it run here, with personal columns?",
        )
    return Keys(place.store())


def mark(forgotten: list[str]) -> str:
    """What is told beside a value in which something is forgotten."""
    return click.style(f"  (forgotten: {', '.join(forgotten)})", fg="yellow") if forgotten else ""
