"""Titles and texts of notifications: templates with the columns of a row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from riverrun import exact
from riverrun.errors import Location, ProgramError

OWN = ("alert", "group", "kind", "n", "since")
"""What every template may name beside columns; a column of that name goes first."""
LONGEST_TITLE, LONGEST_TEXT = 200, 10_000
"""Characters: what is longer is cut."""
TITLE = "{kind}: {group}"
NUMBER, WORD = 1.5, "text"
"""What a format is tried with."""


@dataclass(frozen=True)
class Template:
    """Pieces of text, and what stands between them."""

    written: str
    pieces: tuple[tuple[str, str | None, str], ...]
    """Text, the name that follows it, and the format of its value."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name, _ in self.pieces if name is not None)

    def filled(self, values: Mapping[str, Any]) -> str:
        """A name whose column is no longer there stands as it is written."""
        found = []
        for text, name, form in self.pieces:
            found.append(text)
            if name is not None:
                found.append(_shown(values[name], form) if name in values else f"{{{name}}}")
        return "".join(found)


def template(written: str, option: str, columns: Sequence[str], at: Location) -> Template:
    """Refuses names that are neither columns nor known of every alert."""
    try:
        parsed = [(text, name, form or "", how) for text, name, form, how in _parsed(written)]
    except ValueError as error:
        raise ProgramError(
            f"the template of {option} cannot be read",
            where=at,
            got=f"{written!r}: {error}",
            hint="a column stands in braces, {service}; a brace that is meant as one is {{ or }}",
        ) from error
    for _, name, form, how in parsed:
        if how:
            raise ProgramError(
                f"a name in the template of {option} has no conversion",
                where=at,
                got=f"{{{name}!{how}}}",
                hint=f"{{{name}}}",
            )
        if name is not None and name not in columns and name not in OWN:
            raise ProgramError(
                f"the template of {option} names {name!r}, which is no column",
                where=at,
                got=written,
                hint=f"columns: {', '.join(columns)}; and {', '.join(OWN)}",
            )
        if form and not _possible(form):
            raise ProgramError(
                f"the template of {option} has a format that no value has",
                where=at,
                got=f"{{{name}:{form}}}",
                hint="a number may be {share:.1%} or {total:,}",
            )
    return Template(written, tuple((text, name, form) for text, name, form, _ in parsed))


def one_line(text: str) -> str:
    """A title: line breaks would be headers of their own in a mail."""
    return cut(" ".join(text.split()), LONGEST_TITLE)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _parsed(written: str) -> list[tuple[str, str | None, str | None, str | None]]:
    return list(Formatter().parse(written))


def _possible(form: str) -> bool:
    """A width or precision has at most three digits: what is longer fills the memory."""
    if re.search(r"\d{4}", form):
        return False
    return any(_formatted(value, form) is not None for value in (NUMBER, 1, WORD))


def _shown(value: Any, form: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | dict | list):
        return exact.dumps(value)
    return _formatted(value, form) or str(value)


def _formatted(value: Any, form: str) -> str | None:
    """None where the value has no such format."""
    try:
        return format(value, form)
    except (TypeError, ValueError, OverflowError):
        return None
