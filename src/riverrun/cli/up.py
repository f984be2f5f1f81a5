"""`riverrun up`: start the local Kafka broker, and PostgreSQL if it is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka, postgres


@click.command("up")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients. [default: 9092]")
@click.option("--postgres", "database", is_flag=True, help="Start PostgreSQL too.")
@options.json_option
def command(port: int | None, database: bool, as_json: bool) -> None:
    """Start the local Kafka broker, and return once it answers.

    It runs until `riverrun down`, listens on this machine only, and keeps its data. If port 9092 is
    taken, it gets a free one. Running the command again changes nothing. With --postgres the same
    goes for PostgreSQL and port 5432.

    \b
    riverrun up
    riverrun up --port 19092
    riverrun up --postgres
    """
    settings = options.settings()
    already = kafka.running(settings)
    broker, seconds = _timed(lambda: kafka.up(settings, port=port))
    told = {"running": True, "started": not already, **vars(broker)}
    if not as_json:
        _say("Kafka", broker.brokers, already, seconds)
    if database:
        already = postgres.running(settings)
        server, seconds = _timed(lambda: postgres.up(settings))
        told["postgres"] = {"running": True, "started": not already, **vars(server)}
        if not as_json:
            _say("PostgreSQL", server.url, already, seconds)
    if as_json:
        say_json(told)


def _timed(start: Callable[[], Any]) -> tuple[Any, float]:
    begun_at = time.monotonic()
    return start(), time.monotonic() - begun_at


def _say(name: str, place: str, already: bool, seconds: float) -> None:
    if already:
        click.echo(f"{name} is already running on {place}")
    else:
        click.echo(f"{name} runs on {place} ({seconds:.1f} s)")
