"""`riverrun up`: start the local Kafka broker."""

from __future__ import annotations

import time

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka


@click.command("up")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients. [default: 9092]")
@options.json_option
def command(port: int | None, as_json: bool) -> None:
    """Start the local Kafka broker, and return once it answers.

    It runs until `riverrun down`, listens on this machine only, and keeps its data. If port 9092 is
    taken, it gets a free one. Running the command again changes nothing.

    \b
    riverrun up
    riverrun up --port 19092
    """
    settings = options.settings()
    already, begun_at = kafka.running(settings), time.monotonic()
    broker = kafka.up(settings, port=port)
    if as_json:
        say_json({"running": True, "started": not already, **vars(broker)})
    elif already:
        click.echo(f"Kafka is already running on {broker.brokers}")
    else:
        click.echo(f"Kafka runs on {broker.brokers} ({time.monotonic() - begun_at:.1f} s)")
