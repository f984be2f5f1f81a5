"""Records as lines of text: JSON values, JSON envelopes, or text as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riverrun import exact
from riverrun.errors import InputError
from riverrun.kafka.records import Record

# `offset` is what `riverrun tail --json` adds; a new record gets its own.
ENVELOPE = frozenset({"key", "value", "timestamp", "partition", "headers", "offset"})
HINT = "each line is one JSON value; --raw sends lines as they are, --key-separator with a key"


@dataclass(frozen=True)
class LineFormat:
    """How lines are read: where the key is, and whether they have to be JSON."""

    key_field: str | None = None
    key_separator: str | None = None
    raw: bool = False

    def parse(self, line: str) -> Record:
        """The record of a line; InputError without a place when there is none."""
        if self.key_separator is not None:
            return self._separated(line, self.key_separator)
        if self.raw:
            return Record(line.encode())
        value = _json(line)
        if self.key_field is not None:
            return Record(line.encode(), key=_key(_field(value, self.key_field)))
        return _envelope(value) if _enveloped(value) else Record(line.encode())

    def _separated(self, line: str, separator: str) -> Record:
        key, found, value = line.partition(separator)
        if not found:
            raise InputError(f"the line has no key separator {separator!r}", got=_short(line))
        if not self.raw:
            _json(value)
        return Record(value.encode(), key=key.encode())


def text(value: Any) -> str:
    return exact.dumps(value, separators=(",", ":"))


def _json(line: str) -> Any:
    try:
        return exact.loads(line)
    except ValueError as error:
        raise InputError(
            "the line is not JSON", got=f"{_short(line)} ({error})", hint=HINT
        ) from error


def _enveloped(value: Any) -> bool:
    return isinstance(value, dict) and "value" in value and set(value) <= ENVELOPE


def _envelope(value: dict[str, Any]) -> Record:
    content, headers = value["value"], value.get("headers") or {}
    if not isinstance(headers, dict):
        raise InputError("headers are an object of texts", got=_short(text(headers)))
    return Record(
        value=None if content is None else text(content).encode(),
        key=_key(value.get("key")),
        timestamp=_whole(value, "timestamp"),
        partition=_whole(value, "partition"),
        headers={name: h if isinstance(h, str) else text(h) for name, h in headers.items()},
    )


def _whole(value: dict[str, Any], name: str) -> int | None:
    number = value.get(name)
    if number is None or (type(number) is int and number >= 0):
        return number
    raise InputError(f"the envelope's {name} is not a whole number", got=_short(text(number)))


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise InputError(f"the line has no field {name!r} for the key", got=_short(text(value)))
    return value[name]


def _key(key: Any) -> bytes | None:
    """Texts as they are, so that a key is the same bytes in every tool; the rest as JSON."""
    if key is None:
        return None
    return (key if isinstance(key, str) else text(key)).encode()


def _short(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:117]}..."
