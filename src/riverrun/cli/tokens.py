"""`riverrun tokens`: who may use the server, and for what."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.server.security import SCOPES, Tokens


@click.group("tokens")
def command() -> None:
    """Tokens of the server: with any, each request needs one.

    \b
    riverrun tokens add dashboard --scope read:per_country
    riverrun tokens list
    riverrun tokens remove dashboard
    """


@command.command("add")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, metavar="SCOPE", help=SCOPES)
@options.json_option
def add(name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token. It is shown once: only its hash is kept.

    \b
    riverrun tokens add dashboard --scope read:per_country --scope read:per_user
    riverrun tokens add collector --scope write:clicks
    """
    secret = Tokens(options.settings()).add(name, scopes)
    if as_json:
        say_json({"name": name, "scopes": scopes, "token": secret})
    else:
        click.echo(secret)


@command.command("list")
@options.json_option
def list_(as_json: bool) -> None:
    """The tokens that there are, and what each is for."""
    holders = Tokens(options.settings()).holders
    if as_json:
        say_json([{"name": n, "scopes": h.scopes, "made": h.made} for n, h in holders.items()])
        return
    rows = [
        (
            name,
            ", ".join(each.scopes),
            _time(each.made),
        )
        for name, each in holders.items()
    ]
    print_grid(("name", "scopes", "made"), rows, numbers=())


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Take a token back: the next request with it is refused."""
    Tokens(options.settings()).remove(name)
    click.echo(f"removed {name}")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat("T", "seconds")
