"""`riverrun down`: stop the servers on this machine."""

from __future__ import annotations

import click

from riverrun.capture.known import captures
from riverrun.cli import options, say_json
from riverrun.embedded import connect, kafka, postgres, spark_cluster


@click.command("down")
@options.json_option
def command(as_json: bool) -> None:
    """Stop the local Kafka broker, PostgreSQL, Kafka Connect, Spark and captures of databases.

    Topics, tables and connectors stay for the next `riverrun up`.

    \b
    riverrun down
    """
    settings = options.settings()
    stopped = [each.name for each in captures(settings) if each.by == "riverrun" and each.stop()]
    spark = spark_cluster.down(settings)
    connected = connect.down(settings)  # before what it reads and writes
    database, broker = postgres.down(settings), kafka.down(settings)
    if as_json:
        others = {"postgres": database, "connect": connected, "spark": spark}
        told = {name: {"running": False, "stopped": each} for name, each in others.items()}
        say_json({"running": False, "stopped": broker, **told, "captures": stopped})
        return
    for name in stopped:
        click.echo(f"the capture {name} is stopped: its slot keeps the database's log")
    click.echo("Kafka is stopped" if broker else "Kafka was not running")
    if database:
        click.echo("PostgreSQL is stopped")
    if connected:
        click.echo("Kafka Connect is stopped")
    if spark:
        click.echo("Spark is stopped")
