"""`riverrun resume`: read topics of an application again."""

from __future__ import annotations

import click

from riverrun.cli import options
from riverrun.cli.control import ask


@click.command("resume")
@click.argument("app")
@click.argument("topics", nargs=-1)
@options.json_option
def command(app: str, topics: tuple[str, ...], as_json: bool) -> None:
    """Read TOPICS of the application APP again, or all that were paused, from where it stood.

    \b
    riverrun resume shop views
    riverrun resume shop
    """
    ask("resume", app, topics, as_json=as_json)
