"""`riverrun rescale`: the state of an application in another number of parts, or of pages."""

from __future__ import annotations

from dataclasses import asdict

import click

from riverrun.cli import options, say_json


@click.command("rescale")
@click.argument("app")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Into how many parts: so many tasks of a batch work on it at once.",
)
@click.option(
    "--pages", type=click.IntRange(1, 4096), metavar="N",
    help="Into how many pages: all state is rewritten, and the program says rr.App(…, pages=N).",
)  # fmt: skip
@options.json_option
def command(app: str, partitions: int | None, pages: int | None, as_json: bool) -> None:
    """Deal the state of APP, which must not be running, to N tasks; or rewrite it for N pages.

    The number of parts is fixed when an application runs first, by the cores that it has then, and
    that of pages by the program. Pages are rewritten in a copy, which is compared before it takes
    the checkpoint's place.

    \b
    riverrun rescale shop --partitions 16
    riverrun rescale shop --pages 256
    """
    if (partitions is None) == (pages is None):
        raise click.UsageError("give --partitions, or --pages")
    if pages is not None:
        _pages(app, pages, as_json=as_json)
        return
    from riverrun.runtime.rescale import rescale  # noqa: PLC0415 - slow to import

    assert partitions is not None
    made = rescale(options.settings(), app, partitions, _tell)
    if as_json:
        say_json(asdict(made))
    else:
        click.echo(f"{app}: {made.before} parts are {made.now}, of {made.pages} pages")


def _pages(app: str, pages: int, *, as_json: bool) -> None:
    from riverrun.runtime.repage import repage  # noqa: PLC0415 - slow to import

    made = repage(options.settings(), app, pages, _tell)
    if as_json:
        say_json(asdict(made))
        return
    click.echo(f"{app}: {made.before} pages are {made.now}; {made.rows:,} rows, all compared")
    click.echo(f"its program is to say so: rr.App(…, pages={made.now})")


def _tell(text: str) -> None:
    click.echo(text, err=True)
