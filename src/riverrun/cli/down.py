"""`riverrun down`: stop the local Kafka broker and Spark cluster."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.embedded import kafka, spark_cluster


@click.command("down")
@options.json_option
def command(as_json: bool) -> None:
    """Stop the local Kafka broker, and the Spark cluster.

    Topics and records stay for the next `riverrun up`.

    \b
    riverrun down
    """
    settings = options.settings()
    cluster = spark_cluster.down(settings)
    stopped = kafka.down(settings)
    if as_json:
        spark = {"spark_stopped": True} if cluster else {}
        say_json({"running": False, "stopped": stopped, **spark})
        return
    click.echo("Kafka is stopped" if stopped else "Kafka was not running")
    if cluster:
        click.echo("Spark is stopped")
