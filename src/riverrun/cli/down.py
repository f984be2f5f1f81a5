"""`riverrun down`: stop the local Kafka broker."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka


@click.command("down")
@options.json_option
def command(as_json: bool) -> None:
    """Stop the local Kafka broker. Its topics and records stay for the next `riverrun up`.

    \b
    riverrun down
    """
    stopped = kafka.down(options.settings())
    if as_json:
        say_json({"running": False, "stopped": stopped})
    else:
        click.echo("Kafka is stopped" if stopped else "Kafka was not running")
