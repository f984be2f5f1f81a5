"""`riverrun down`: stop the local Kafka broker and PostgreSQL."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka, postgres


@click.command("down")
@options.json_option
def command(as_json: bool) -> None:
    """Stop the local Kafka broker, and PostgreSQL. Their data stays for the next `riverrun up`.

    \b
    riverrun down
    """
    settings = options.settings()
    stopped, database = kafka.down(settings), postgres.down(settings)
    if as_json:
        told = {"running": False, "stopped": database}
        say_json({"running": False, "stopped": stopped, "postgres": told})
        return
    click.echo("Kafka is stopped" if stopped else "Kafka was not running")
    if database:
        click.echo("PostgreSQL is stopped")
