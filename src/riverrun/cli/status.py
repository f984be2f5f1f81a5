"""`riverrun status`: which servers run on this machine."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import libversion

from riverrun.capture.capturer import Capturer
from riverrun.capture.known import captures
from riverrun.cli import options, say_json
from riverrun.cli.up import facts
from riverrun.config import Calls
from riverrun.embedded import connect, kafka, postgres, spark_cluster
from riverrun.kafka.librdkafka import way_of, why_not


@click.command("status")
@click.option("--verbose", is_flag=True, help="Also how records are read and written.")
@options.json_option
def command(verbose: bool, as_json: bool) -> None:
    """Tell whether Kafka, PostgreSQL, Kafka Connect, Spark and captures run here, and where.

    The exit code is 0 either way.

    \b
    riverrun status
    riverrun status --verbose
    riverrun status --json
    """
    settings = options.settings()
    broker, server = kafka.status(settings), postgres.status(settings)
    worker, cluster = connect.status(settings), spark_cluster.status(settings)
    if as_json:
        spark = {"running": cluster is not None, **(facts(cluster) if cluster else {})}
        running = {each.name: {"pid": each.running()} for each in captures(settings)}
        client = {
            who: {"way": way_of(wanted), "why": _why(wanted)}
            for who, wanted in (("reader", settings.reader), ("writer", settings.writer))
        }
        told = {"postgres": _facts(server), "connect": _facts(worker), "spark": spark}
        say_json({**_facts(broker), **told, "captures": running, **client})
        return
    if broker is None:
        click.echo("Kafka is not running (`riverrun up` starts it)")
    else:
        click.echo(f"Kafka runs on {broker.brokers} (pid {broker.pid})\nfolder {broker.folder}")
    if server is None:
        click.echo("PostgreSQL is not running (`riverrun up --postgres` starts it)")
    else:
        click.echo(f"PostgreSQL runs on {server.url} (pid {server.pid})\nfolder {server.folder}")
    if worker is not None:
        click.echo(f"Kafka Connect runs on {worker.url} (pid {worker.pid})\nlog {worker.log}")
    if cluster is not None:
        workers = ", ".join(str(worker.pid) for worker in cluster.workers) or "none"
        click.echo(f"Spark runs on {cluster.master} (pid {cluster.pid}; workers: {workers})")
    for each in captures(settings):
        click.echo(f"the capture {each.name} {_doing(each)}")
    if verbose:
        for done, wanted in ("read", settings.reader), ("written", settings.writer):
            click.echo(f"records are {done} the {way_of(wanted)} way: {_why(wanted)}")


def _why(wanted: Calls) -> str:
    if wanted != "quickest":
        return "the setting says so"
    return why_not() or f"librdkafka {libversion()[0]} is one of those it is tested with"


def _doing(capture: Capturer) -> str:
    if capture.by == "connect":
        return "is Kafka Connect's: `riverrun capture status` asks it"
    pid = capture.running()
    return "is stopped" if pid is None else f"runs (pid {pid})"


def _facts(server: kafka.Broker | postgres.Server | connect.Worker | None) -> dict[str, Any]:
    return {"running": server is not None, **(vars(server) if server else {})}
