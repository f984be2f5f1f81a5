"""`riverrun run`: run a program until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from riverrun.cli import say_json
from riverrun.cli.live import LiveView, graceful
from riverrun.cli.program_file import load_app
from riverrun.config import load

MADE_OF = ("recent", "given", "fields")


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--master", help="Spark's master, local[*] if not given.")
@click.option("--environment", metavar="same|FILE",
              help="The Python of a cluster's executors; see docs/cluster.md.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Forget the checkpoint and start over.")
@click.option(
    "--keep-written",
    is_flag=True,
    help="Keep the results of a half-written batch, though the program has changed since.",
)
@click.option("--once", is_flag=True, help="Read what there is, then stop.")
@click.option(
    "--close",
    is_flag=True,
    help="With --once: in the end windows close, and rows that wait leave.",
)
@click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Most events per batch.",
)
@click.option(
    "--batch-time",
    default="5 seconds",
    show_default=True,
    metavar="DURATION",
    help="How long a batch should take; its size follows.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each batch's status as one line of JSON."
)
def command(
    program: Path,
    brokers: str | None,
    master: str | None,
    environment: str | None,
    as_json: bool,
    **options: bool | int | str,
) -> None:
    """Run PROGRAM until Ctrl-C.

    \b
    riverrun run app.py                       on the embedded broker and local Spark
    riverrun run app.py --brokers host:9092   on any cluster; see riverrun.toml for TLS and SASL
    riverrun run app.py --once                read what there is, then stop
    riverrun run app.py --once --close        the same, and the last windows close: a backfill
    """
    from riverrun.runtime.run import Options, started  # noqa: PLC0415 - Spark only when it is needed

    if options["close"] and not options["once"]:
        raise click.UsageError(
            "--close goes with --once: a program that runs on closes by its clock"
        )
    app = load_app(program)
    settings = load().override(brokers=brokers, master=master, environment=environment)
    view = LiveView(app.name, quiet=as_json)
    chosen = Options(**options)  # type: ignore[arg-type]
    with graceful() as stopping, view, started(app, settings, chosen, view.tell) as running:
        stopping.lets_finish(running.drain)
        for status in running.watch():
            view.warn(status)
            say_json(_told(status)) if as_json else view.show(status)


def _told(status: dict[str, Any]) -> dict[str, Any]:
    """Without what alerts and warnings are made of."""
    return {name: fact for name, fact in status.items() if name not in MADE_OF}
