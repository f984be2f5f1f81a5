"""`riverrun demo`: everything at once, to look at."""

from __future__ import annotations

import importlib
import time
from typing import Any

import click

from riverrun.cli.live import LiveView, graceful
from riverrun.config import load
from riverrun.embedded import kafka
from riverrun.kafka import admin

TOPIC = "demo-views"


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=1), help="Stop after this long; else run until Ctrl-C."
)
def command(seconds: float | None) -> None:
    """Start Kafka, produce page views, run a program on Spark and show its table change.

    \b
    riverrun demo
    riverrun demo --seconds 30
    """
    # Spark and the program are imported only now, so that help and errors come at once
    run = importlib.import_module("riverrun.runtime.run")
    traffic = importlib.import_module("riverrun.demo.traffic")
    program = importlib.import_module("riverrun.demo.page_views")
    settings = load()
    view = LiveView("demo")
    view.tell("page views -> views and average time per page and minute, as they change")
    ours = settings.brokers is None and not kafka.running(settings)
    producing: list[Any] = []

    def produce(client: dict[str, str]) -> None:
        _topic(client)
        producing.append(traffic.Traffic(client, TOPIC))
        producing[0].start()
        view.tell(f"producing {traffic.PER_SECOND} views per second to {TOPIC}")

    try:
        ends_at = None if seconds is None else time.monotonic() + seconds
        with graceful() as stopping, view:
            options = run.Options(fresh=True)
            with run.started(program.app, settings, options, view.tell, produce) as running:
                stopping.lets_finish(running.drain)
                for status in running.watch():
                    view.warn(status)
                    view.show(status)
                    if ends_at and time.monotonic() > ends_at:
                        break
        for each in producing:
            each.stop()
        _say_where(view, settings.home)
    finally:
        if ours:
            kafka.down(settings)


def _topic(client: dict[str, str]) -> None:
    if TOPIC not in {topic.name for topic in admin.topics(client)}:
        admin.create_topic(client, TOPIC, partitions=4)


def _say_where(view: LiveView, home: object) -> None:
    first = f"{view.first_result:.1f} s" if view.first_result else "no result yet"
    click.echo(
        f"\nfirst result after {first} from start\n"
        f"the table is in the topic demo-page-views, broken records are in demo.dead, late ones in "
        f"demo.demo-views_by_page_per_1_minute.late; all of it under {home}\n"
        "look at it:   riverrun up && riverrun tail demo-page-views --from earliest\n"
        "the program:  python -c 'import riverrun.demo.page_views as p; print(p.__file__)'"
    )
