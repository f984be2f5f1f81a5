"""Durations, and times as text. Both are microseconds; times count from 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from riverrun.errors import ProgramError

BEGINNING = -(2**62)
"""Before every event: the clock of a program that has seen nothing."""

END = 2**62
"""After every event: the clock when the input has ended."""

UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}

Duration = str | timedelta


def microseconds(duration: Duration, where: object = None) -> int:
    """`"5 minutes"`, `"1 hour 30 minutes"` or a timedelta, in microseconds."""
    if isinstance(duration, timedelta) and duration >= timedelta(0):
        return round(duration / timedelta(microseconds=1))
    text = duration.lower() if isinstance(duration, str) else ""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text)
    rest = re.sub(r"\d+(?:\.\d+)?\s*[a-z]+", "", text).strip(" ,")
    known = [(float(number), _unit(word)) for number, word in parts]
    found = sum(number * unit for number, unit in known if unit is not None)
    if not parts or rest or any(unit is None for _, unit in known) or found >= END:
        raise ProgramError(
            "a duration cannot be read",
            where=where,
            got=repr(duration),
            hint='write it as "30 seconds", "5 minutes", "1 hour", "7 days", or a timedelta',
        )
    return round(found)


def patience(text: str) -> int:
    """How long to wait, in microseconds: a plain number is of seconds."""
    plain = re.fullmatch(r"\d+\.?\d*|\.\d+", text.strip(), re.ASCII)
    return microseconds(f"{float(text):f} seconds" if plain else text)


def _unit(word: str) -> int | None:
    return UNITS.get(word, UNITS.get(word.removesuffix("s")))  # any other: no unit


def milliseconds_of(text: str, where: object = None, what: str = "a time") -> int:
    """A moment in ISO 8601 text as milliseconds since 1970; UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        choice = '"earliest", "latest", or ' if what == "a starting position" else ""
        raise ProgramError(
            f"{what} cannot be read",
            where=where,
            got=repr(text),
            hint=f'{choice}a time like "2026-01-31T12:00:00Z"',
        ) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def time_text(time: int) -> str:
    """A time as people read it: the clock of a step, or when a batch ran."""
    if time <= BEGINNING:
        return "nothing read yet"
    if time >= END:
        return "the end of the input"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def duration_text(duration: int) -> str:
    """The shortest text in whole units: 60000000 is "1 minute"."""
    for word in ("week", "day", "hour", "minute", "second", "millisecond", "microsecond"):
        if duration and duration % UNITS[word] == 0:
            count = duration // UNITS[word]
            return f"{count} {word}{'' if count == 1 else 's'}"
    return "0 seconds"
