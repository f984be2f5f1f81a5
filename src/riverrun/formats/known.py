"""The formats that have a name."""

from __future__ import annotations

from riverrun.errors import ProgramError
from riverrun.formats.debezium import Debezium
from riverrun.formats.format import Format
from riverrun.formats.json import Json

JSON = Json()
LENIENT = Json("lenient json", lenient=True)
NESTED = Json("nested json", nested=True)

FORMATS: dict[str, Format] = {each.name: each for each in (JSON, LENIENT, NESTED, Debezium())}


def format_of(given: str | Format, where: object = None) -> Format:
    """The format of a name, or the one that is given."""
    if isinstance(given, Format):
        return given
    if not isinstance(given, str) or given not in FORMATS:
        raise ProgramError(
            f"there is no format {given!r}",
            where=where,
            hint=f"formats: {', '.join(sorted(FORMATS))}; or an instance of your own subclass of "
            "riverrun.formats.Format",
        )
    return FORMATS[given]
