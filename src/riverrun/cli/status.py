"""`riverrun status`: whether the local Kafka broker runs."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka


@click.command("status")
@options.json_option
def command(as_json: bool) -> None:
    """Tell whether the local Kafka broker runs, and where.

    The exit code is 0 either way.

    \b
    riverrun status
    riverrun status --json
    """
    broker = kafka.status(options.settings())
    if as_json:
        say_json({"running": broker is not None, **(vars(broker) if broker else {})})
    elif broker is None:
        click.echo("Kafka is not running (`riverrun up` starts it)")
    else:
        click.echo(f"Kafka runs on {broker.brokers} (pid {broker.pid})\nfolder {broker.folder}")
