"""Where results go, as data. What delivers to each kind is in `riverrun.delivery`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Guarantee = Literal["exactly once", "at least once"]


@dataclass(frozen=True)
class Topic:
    """A Kafka topic."""

    name: str
    partitions: int | None = None
    headers: str | None = None
    """The column that holds the headers of records."""


@dataclass(frozen=True)
class Screen:
    """The terminal."""

    name: str = "screen"


Sink = Topic | Screen


def topic(name: str, *, partitions: int | None = None, headers: str | None = None) -> Topic:
    """A Kafka topic to write to, created with this many partitions when it is missing.

    `headers` is a column of texts by name that becomes the headers of a stream's records; with
    "_headers", they are those of the record that a row came from.
    """
    return Topic(name, partitions, headers)


def screen(name: str | None = None) -> Screen:
    """The terminal of `riverrun run`. A name tells two screens of one stream apart."""
    return Screen(f"screen:{name}" if name else "screen")
