"""Windows, as a program names them."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from riverrun.durations import UNITS, Duration, duration_text, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.windowing import MONDAY, Window


def tumbling(
    size: Duration, *, offset: Duration = "0 seconds", timezone: str | None = None
) -> Window:
    """Windows of one size, side by side: `tumbling("1 minute")`.

    They begin at multiples of the size since 1970 (UTC), weeks on Mondays; `offset` moves them.
    With a `timezone` the size is in whole days, and a day is a local one, of 23 or 25 hours when
    the clocks change.
    """
    at = caller()
    length = _length("a window", size, at)
    return Window("tumbling", length, length, _alignment(length, offset, timezone, at), timezone)


def hopping(
    size: Duration, hop: Duration, *, offset: Duration = "0 seconds", timezone: str | None = None
) -> Window:
    """Windows of one size that begin every `hop`: `hopping("5 minutes", "1 minute")`."""
    at = caller()
    length, distance = _length("a window", size, at), _length("a hop", hop, at)
    if distance > length:
        raise ProgramError(
            "a hop is at most the size of the window",
            where=at,
            got=f"{size} every {hop}",
            hint="rows between two windows would belong to none; filter them with where()",
        )
    alignment = _alignment(distance, offset, timezone, at)
    if timezone:
        _whole_days(length, at)
    kind = "tumbling" if length == distance else "hopping"
    return Window(kind, length, distance, alignment, timezone)  # type: ignore[arg-type]


def sliding(size: Duration) -> Window:
    """For each row, the rows of its key within this time up to it: `sliding("5 minutes")`."""
    return Window("sliding", _length("a window", size, caller()))


def session(gap: Duration) -> Window:
    """Rows with less than `gap` between them: `session("30 minutes")`."""
    return Window("session", _length("a gap", gap, caller()))


def all_time() -> Window:
    """The one window that never ends; the same as no window."""
    return Window("all")


def _length(what: str, duration: Duration, at: Location) -> int:
    length = microseconds(duration, at)
    if length <= 0:
        raise ProgramError(f"{what} needs a size above zero", where=at, got=duration)
    return length


def _alignment(hop: int, offset: Duration, timezone: str | None, at: Location) -> int:
    moved = microseconds(offset, at)
    if timezone is not None:
        _whole_days(hop, at)
        _known_zone(timezone, at)
        if moved % UNITS["day"]:
            raise ProgramError(
                "with a time zone the offset is in whole days", where=at, got=repr(offset)
            )
    weeks = hop % UNITS["week"] == 0
    return (moved + (MONDAY if weeks else 0)) % hop


def _whole_days(length: int, at: Location) -> None:
    if length % UNITS["day"]:
        raise ProgramError(
            "with a time zone windows are whole days",
            where=at,
            got=duration_text(length),
            hint='shorter ones can be moved with offset="30 minutes"',
        )


def _known_zone(name: str, at: Location) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ProgramError(
            "there is no such time zone", where=at, got=repr(name), hint='e.g. "Europe/Berlin"'
        ) from error
