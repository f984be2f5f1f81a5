"""`riverrun status`: whether the local Kafka broker and Spark cluster run."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.cli.up import facts
from riverrun.embedded import kafka, spark_cluster


@click.command("status")
@options.json_option
def command(as_json: bool) -> None:
    """Tell whether the local Kafka broker and Spark cluster run, and where.

    The exit code is 0 either way.

    \b
    riverrun status
    riverrun status --json
    """
    settings = options.settings()
    broker, cluster = kafka.status(settings), spark_cluster.status(settings)
    if as_json:
        spark = {"spark": facts(cluster)} if cluster else {}
        say_json({"running": broker is not None, **(vars(broker) if broker else {}), **spark})
        return
    if broker is None:
        click.echo("Kafka is not running (`riverrun up` starts it)")
    else:
        click.echo(f"Kafka runs on {broker.brokers} (pid {broker.pid})\nfolder {broker.folder}")
    if cluster is not None:
        workers = ", ".join(str(worker.pid) for worker in cluster.workers) or "none"
        click.echo(f"Spark runs on {cluster.master} (pid {cluster.pid}; workers: {workers})")
