"""`riverrun rescale`: the state of an application in another number of parts."""

from __future__ import annotations

from dataclasses import asdict

import click

from riverrun.cli import options, say_json


@click.command("rescale")
@click.argument("app")
@click.option(
    "--partitions", type=click.IntRange(1), required=True, metavar="N",
    help="Into how many parts: so many tasks of a batch work on it at once.",
)  # fmt: skip
@options.json_option
def command(app: str, partitions: int, as_json: bool) -> None:
    """Deal the state of APP, which must not be running, to N tasks.

    The number is fixed when an application runs first, by the cores that it has then. Pages stay
    as they are. It is done with a copy, which is compared before it takes the checkpoint's place.

    \b
    riverrun rescale shop --partitions 16
    """
    from riverrun.runtime.rescale import rescale  # noqa: PLC0415 - slow to import

    made = rescale(options.settings(), app, partitions, lambda text: click.echo(text, err=True))
    if as_json:
        say_json(asdict(made))
    else:
        click.echo(
            f"{app}: {made.before} parts are {made.now}; {made.pages} pages, "
            f"{made.segments:,} segments, {made.bytes:,} bytes, all compared"
        )
