"""`riverrun status`: which servers run on this machine."""

from __future__ import annotations

from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.up import facts
from riverrun.embedded import kafka, postgres, spark_cluster


@click.command("status")
@options.json_option
def command(as_json: bool) -> None:
    """Tell whether the local Kafka broker, PostgreSQL and the Spark cluster run, and where.

    The exit code is 0 either way.

    \b
    riverrun status
    riverrun status --json
    """
    settings = options.settings()
    broker, server = kafka.status(settings), postgres.status(settings)
    cluster = spark_cluster.status(settings)
    if as_json:
        spark = {"running": cluster is not None, **(facts(cluster) if cluster else {})}
        say_json({**_facts(broker), "postgres": _facts(server), "spark": spark})
        return
    if broker is None:
        click.echo("Kafka is not running (`riverrun up` starts it)")
    else:
        click.echo(f"Kafka runs on {broker.brokers} (pid {broker.pid})\nfolder {broker.folder}")
    if server is None:
        click.echo("PostgreSQL is not running (`riverrun up --postgres` starts it)")
    else:
        click.echo(f"PostgreSQL runs on {server.url} (pid {server.pid})\nfolder {server.folder}")
    if cluster is not None:
        workers = ", ".join(str(worker.pid) for worker in cluster.workers) or "none"
        click.echo(f"Spark runs on {cluster.master} (pid {cluster.pid}; workers: {workers})")


def _facts(server: kafka.Broker | postgres.Server | None) -> dict[str, Any]:
    return {"running": server is not None, **(vars(server) if server else {})}
