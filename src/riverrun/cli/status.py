"""`riverrun status`: which servers run on this machine."""

from __future__ import annotations

from typing import Any

import click

from riverrun.capture.known import captures
from riverrun.cli import options, say_json
from riverrun.cli.up import facts
from riverrun.embedded import kafka, postgres, spark_cluster


@click.command("status")
@options.json_option
def command(as_json: bool) -> None:
    """Tell whether the local Kafka broker, PostgreSQL, Spark cluster and captures run, and where.

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
        running = {each.name: {"pid": each.running()} for each in captures(settings)}
        told = {"postgres": _facts(server), "spark": spark, "captures": running}
        say_json({**_facts(broker), **told})
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
    for each in captures(settings):
        pid = each.running()
        click.echo(
            f"the capture {each.name} runs (pid {pid})"
            if pid is not None
            else f"the capture {each.name} is stopped"
        )


def _facts(server: kafka.Broker | postgres.Server | None) -> dict[str, Any]:
    return {"running": server is not None, **(vars(server) if server else {})}
