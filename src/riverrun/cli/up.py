"""`riverrun up`: start the local Kafka broker; PostgreSQL, Kafka Connect and Spark if asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.embedded import connect, kafka, postgres, spark_cluster


@click.command("up")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients. [default: 9092]")
@click.option("--postgres", "database", is_flag=True, help="Start PostgreSQL too.")
@click.option("--connect", "worker", is_flag=True, help="Start Kafka Connect with Debezium too.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N",
              help="Also a Spark master and N workers of one core each.")  # fmt: skip
@options.json_option
def command(
    port: int | None, database: bool, worker: bool, workers: int | None, as_json: bool
) -> None:
    """Start the local Kafka broker, and return once it answers.

    It runs until `riverrun down`, listens on this machine only, and keeps its data. If port 9092 is
    taken, it gets a free one. Running the command again changes nothing. With --postgres the same
    goes for PostgreSQL and port 5432, with --connect for Kafka Connect and port 8083.

    \b
    riverrun up
    riverrun up --port 19092
    riverrun up --postgres
    riverrun up --connect             for change capture by Debezium
    riverrun up --workers 2           for riverrun run app.py --master spark://127.0.0.1:7077
    """
    settings = options.settings()
    say = _silent if as_json else _say
    already = kafka.running(settings)
    broker, seconds = _timed(lambda: kafka.up(settings, port=port))
    told = {"running": True, "started": not already, **vars(broker)}
    say("Kafka", broker.brokers, already, seconds)
    if database:
        already = postgres.running(settings)
        server, seconds = _timed(lambda: postgres.up(settings))
        told["postgres"] = {"running": True, "started": not already, **vars(server)}
        say("PostgreSQL", server.url, already, seconds)
    if worker:
        already = connect.running(settings)
        connected, seconds = _timed(lambda: connect.up(settings))
        told["connect"] = {"running": True, "started": not already, **vars(connected)}
        say("Kafka Connect", connected.url, already, seconds)
    if workers:
        already = spark_cluster.status(settings) is not None
        cluster, seconds = _timed(lambda: spark_cluster.up(settings, workers=workers))
        told["spark"] = {"running": True, "started": not already, **facts(cluster)}
        say(f"Spark with {len(cluster.workers)} workers", cluster.master, already, seconds)
    if as_json:
        say_json(told)


def _timed(start: Callable[[], Any]) -> tuple[Any, float]:
    begun_at = time.monotonic()
    return start(), time.monotonic() - begun_at


def _silent(*_: object) -> None:
    pass


def _say(name: str, place: str, already: bool, seconds: float) -> None:
    if already:
        click.echo(f"{name} is already running on {place}")
    else:
        click.echo(f"{name} runs on {place} ({seconds:.1f} s)")


def facts(cluster: spark_cluster.Cluster) -> dict[str, object]:
    """What programs are told of the Spark cluster."""
    return {
        "master": cluster.master,
        "pid": cluster.pid,
        "workers": [
            {"pid": worker.pid, "executors": [each.pid for each in worker.executors()]}
            for worker in cluster.workers
        ],
        "folder": cluster.folder,
    }
