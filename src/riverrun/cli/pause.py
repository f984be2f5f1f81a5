"""`riverrun pause`: stop reading topics of an application, until they are resumed."""

from __future__ import annotations

import click

from riverrun.cli import options
from riverrun.cli.control import ask


@click.command("pause")
@click.argument("app")
@click.argument("topics", nargs=-1)
@options.json_option
def command(app: str, topics: tuple[str, ...], as_json: bool) -> None:
    """Stop reading TOPICS of the application APP, or all that it reads, until `riverrun resume`.

    Nothing is lost: what arrives waits in the topics, also over restarts and with --fresh. Time
    waits with it: windows over what is paused do not close.

    \b
    riverrun pause shop views
    riverrun pause shop
    """
    ask("pause", app, topics, as_json=as_json)
