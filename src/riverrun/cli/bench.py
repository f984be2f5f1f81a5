"""`riverrun bench`: measured against other ways to do the same, in one run."""

from __future__ import annotations

import click

from riverrun.cli import say_json
from riverrun.config import load


@click.group()
def command() -> None:
    """Measure riverrun against other ways to do the same, in one run on this machine.

    \b
    riverrun bench window
    riverrun bench window --small --json
    """


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def window(brokers: str | None, small: bool, as_json: bool) -> None:
    """Windowed counts: events per second, nearly empty batches, and the cost of much state.

    2 million events, 100,000 and 1,000 keys, 10-second windows, results to Kafka, against plain
    PySpark (Kafka source, from_json, built-in aggregate, Kafka sink). Takes about 10 minutes.
    """
    from riverrun.bench.window import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes)
    say_json(report.as_json()) if as_json else report.show()
