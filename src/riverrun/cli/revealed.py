"""What is personal in what commands show, read with the keys of an application."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from riverrun.config import Settings
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.forgetting import Keys


reveal_option = click.option(
    "--reveal", is_flag=True, help="Read what is personal; null is what was forgotten."
)


GONE = "(forgotten)"


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


Shown = tuple[list[Any], list[str]]
"""The values of a row, and the columns in which something is forgotten."""


def rows_read(
    keys: Keys | None, names: Sequence[str], rows: Iterable[Iterable[Any]]
) -> list[Shown]:
    """Rows, with what can be read of them if there are keys."""
    if keys is None:
        return [(list(row), []) for row in rows]
    found = [[keys.reveal(value) for value in row] for row in rows]
    return [
        (
            [each.value for each in row],
            list(dict.fromkeys(n for n, each in zip(names, row, strict=True) if each.forgotten)),
        )
        for row in found
    ]


def cells(names: Sequence[str], shown: Shown) -> tuple[str, ...]:
    """The values of a row as text."""
    row, forgotten = shown
    return tuple(
        f"{'null' if value is None else value}{f'  {GONE}' if name in forgotten else ''}"
        for name, value in zip(names, row, strict=True)
    )


def mark(forgotten: list[str]) -> str:
    """What is told beside a value in which something is forgotten."""
    return click.style(f"  (forgotten: {', '.join(forgotten)})", fg="yellow") if forgotten else ""
