"""`riverrun up`: start the local Kafka broker, and if asked for a Spark cluster."""

from __future__ import annotations

import time

import click

from riverrun.cli import options, say_json
from riverrun.config import Settings
from riverrun.embedded import kafka, spark_cluster


@click.command("up")
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients. [default: 9092]")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N",
              help="Also a Spark master and N workers of one core each.")  # fmt: skip
@options.json_option
def command(port: int | None, workers: int | None, as_json: bool) -> None:
    """Start the local Kafka broker, and return once it answers.

    It runs until `riverrun down`, listens on this machine only, and keeps its data. If port 9092 is
    taken, it gets a free one. Running the command again changes nothing.

    \b
    riverrun up
    riverrun up --port 19092
    riverrun up --workers 2           for riverrun run app.py --master spark://127.0.0.1:7077
    """
    settings = options.settings()
    already, begun_at = kafka.running(settings), time.monotonic()
    broker = kafka.up(settings, port=port)
    if as_json:
        spark = {"spark": facts(spark_cluster.up(settings, workers=workers))} if workers else {}
        say_json({"running": True, "started": not already, **vars(broker), **spark})
        return
    if already:
        click.echo(f"Kafka is already running on {broker.brokers}")
    else:
        click.echo(f"Kafka runs on {broker.brokers} ({time.monotonic() - begun_at:.1f} s)")
    if workers:
        _workers(settings, workers)


def _workers(settings: Settings, workers: int) -> None:
    begun_at = time.monotonic()
    cluster = spark_cluster.up(settings, workers=workers)
    took = f"{time.monotonic() - begun_at:.1f} s"
    click.echo(f"Spark runs on {cluster.master} with {len(cluster.workers)} workers ({took})")


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
