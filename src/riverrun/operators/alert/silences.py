"""Silences: groups of which nothing is told for a time, by the values of their columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import exact
from riverrun.control import SILENCE, UNSILENCE, Command
from riverrun.durations import Duration, microseconds, time_text
from riverrun.errors import InputError

LONGEST = 1000
"""Characters of a name, a comment or a value in a command."""
MATCHER = re.compile(r"(?P<column>[^=!~]+)(?P<how>=~|!~|!=(?!=)|=(?!=))(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Matcher:
    """What the value of a column has to be, as text; that of a null is empty."""

    column: str
    how: str
    value: str

    def holds(self, values: Mapping[str, str]) -> bool:
        found = values.get(self.column)
        if found is None:
            return False
        same = _matches(self.value, found) if "~" in self.how else found == self.value
        return same is not self.how.startswith("!")


@dataclass(frozen=True)
class Silence:
    id: str
    matchers: tuple[Matcher, ...]
    until: int
    """In microseconds since 1970."""
    by: str = ""
    comment: str = ""

    @property
    def data(self) -> dict[str, Any]:
        return {**asdict(self), "until": time_text(self.until)}

    def holds(self, values: Mapping[str, str], tick: int) -> bool:
        return tick < self.until and all(each.holds(values) for each in self.matchers)


def matcher_of(text: str) -> Matcher:
    """`service=pay`, `service!=pay`, `service=~pay.*`, `service!~pay.*`."""
    found = MATCHER.fullmatch(text)
    if found is None:
        raise InputError(
            "a matcher cannot be read",
            got=repr(text),
            hint="COLUMN=VALUE, COLUMN!=VALUE, COLUMN=~PATTERN or COLUMN!~PATTERN",
        )
    made = Matcher(found["column"].strip(), found["how"], found["value"])
    require_pattern(made)
    return made


def length_of(lasts: Duration) -> int:
    """How long a silence is, in microseconds."""
    found = microseconds(lasts, "lasts")
    if found <= 0:
        raise InputError("a silence lasts for a time", where="lasts", got=lasts, hint="1 hour")
    return found


def require_pattern(matcher: Matcher) -> None:
    if "~" not in matcher.how:
        return
    try:
        _matches(matcher.value, "")
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise InputError(
            "the pattern of a matcher cannot be read", got=f"{matcher.value!r}: {error}"
        ) from error


@lru_cache(maxsize=10_000)
def _matches(pattern: str, text: str) -> bool:
    """Whether the whole text is as the pattern says, by RE2: no pattern takes it long."""
    pc.match_substring_regex(pa.array([""]), pattern)  # by itself, without the ends around it
    found = pc.match_substring_regex(pa.array([text]), rf"\A(?:{pattern})\z")
    return bool(found[0].as_py())


def silence_of(body: Mapping[str, Any]) -> Silence | None:
    """None if no command line has written it: anybody may write to a topic."""
    try:
        matchers = tuple(Matcher(*map(_text, each)) for each in body["matchers"])
        for each in matchers:
            require_pattern(each)
        until, known = body["until"], matchers and all(m.how in HOWS for m in matchers)
        if type(until) is not int or not known:
            return None
        by, comment = _text(body.get("by", "")), _text(body.get("comment", ""))
        return Silence(_text(body["id"]), matchers, until, by, comment)
    except (InputError, KeyError, TypeError, ValueError):
        return None


HOWS = ("=", "!=", "=~", "!~")


def value_text(value: Any) -> str:
    """A value of JSON as matchers and people see it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else exact.dumps(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise TypeError(value)
    return value


def after(
    silences: Iterable[Silence], commands: Iterable[Command], tick: int
) -> tuple[Silence, ...]:
    """Those that stand after commands, without those that are over."""
    found = {each.id: each for each in silences}
    for command in commands:
        if command.kind == SILENCE and (made := silence_of(command.body)) is not None:
            found[made.id] = made
        elif command.kind == UNSILENCE:
            found.pop(str(command.body.get("id")), None)
    return tuple(each for each in found.values() if each.until > tick)


def encoded(silences: Iterable[Silence]) -> str:
    return json.dumps([asdict(each) for each in silences])


def decoded(text: str) -> tuple[Silence, ...]:
    found = [silence_of({**each, "matchers": [m.values() for m in each["matchers"]]})
             for each in json.loads(text)]  # fmt: skip
    return tuple(each for each in found if each is not None)
