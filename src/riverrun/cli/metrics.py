"""`riverrun metrics`: what `/metrics` of a server says, without a server."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json


@click.command("metrics")
@options.json_option
def command(as_json: bool) -> None:
    """Print the metrics of all applications that run or have run here, as Prometheus reads them.

    \b
    riverrun metrics
    riverrun metrics --json
    riverrun metrics > riverrun.prom.tmp && mv riverrun.prom.tmp riverrun.prom
    """
    # what computes only when it is needed
    from prometheus_client import generate_latest  # noqa: PLC0415

    from riverrun.runtime.metrics import registry  # noqa: PLC0415

    found = registry(options.settings())
    if as_json:
        say_json([
            {"name": sample.name, "labels": sample.labels, "value": sample.value}
            for family in found.collect()
            for sample in family.samples
        ])  # fmt: skip
    else:
        click.echo(generate_latest(found), nl=False)
