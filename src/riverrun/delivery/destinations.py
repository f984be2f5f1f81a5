"""Which destination delivers an output. One of each lives as long as its process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from riverrun.delivery.destination import Destination, Rows
from riverrun.delivery.kafka import KafkaAtLeastOnce
from riverrun.delivery.sqlite import SqliteFile
from riverrun.delivery.transactions import KafkaExactlyOnce
from riverrun.kernels.program import OutputSpec
from riverrun.sinks import (
    Delta,
    Guarantee,
    Parquet,
    Postgres,
    Screen,
    Sink,
    Sqlite,
    Topic,
    Webhook,
)


@dataclass(frozen=True)
class Places:
    """What destinations need to know of their surroundings."""

    kafka: tuple[tuple[str, str], ...]
    """Settings of librdkafka."""
    guarantee: Guarantee
    postgres: str | None = None
    """The address of PostgreSQL, for programs that write to it."""


@cache
def destination_of(sink: Sink, places: Places) -> Destination | None:
    """None for a screen: the driver shows it."""
    match sink:
        case Topic():
            return _kafka(places)
        case Postgres():
            return _postgres(places)
        case Sqlite():
            return _sqlite(sink.file)
        case Screen():
            return None
        case _:
            return _rare(sink, places)


def _rare(sink: Parquet | Delta | Webhook, places: Places) -> Destination:
    """Only programs that use them wait for their libraries."""
    match sink:
        case Parquet():
            from riverrun.delivery.files import ParquetFolder  # noqa: PLC0415

            return ParquetFolder(sink)
        case Delta():
            from riverrun.delivery.delta import DeltaFolder  # noqa: PLC0415

            return DeltaFolder(sink)
        case Webhook():
            from riverrun.delivery.webhook import WebhookSender  # noqa: PLC0415

            return WebhookSender(sink, dict(places.kafka))


def by_destination(found: Iterable[Rows], places: Places) -> dict[Destination, list[Rows]]:
    """Outputs with their rows, grouped; each destination gets all that is for it at once."""
    grouped: dict[Destination, list[Rows]] = {}
    for output, rows in found:
        if destination := destination_of(output.sink, places):
            grouped.setdefault(destination, []).append((output, rows))
    return grouped


def destinations(
    outputs: Iterable[OutputSpec], places: Places
) -> dict[Destination, list[OutputSpec]]:
    """All destinations of a program, each with its outputs."""
    grouped: dict[Destination, list[OutputSpec]] = {}
    for output in outputs:
        if destination := destination_of(output.sink, places):
            grouped.setdefault(destination, []).append(output)
    return grouped


@cache
def _kafka(places: Places) -> Destination:
    kind = KafkaExactlyOnce if places.guarantee == "exactly once" else KafkaAtLeastOnce
    return kind(dict(places.kafka))


@cache
def _postgres(places: Places) -> Destination:
    from riverrun.delivery import postgres  # noqa: PLC0415 - programs without it do not wait for it

    assert places.postgres is not None
    return postgres.Postgres(places.postgres)


@cache
def _sqlite(file: Path) -> Destination:
    return SqliteFile(file)
