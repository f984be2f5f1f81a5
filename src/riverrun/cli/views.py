"""`riverrun views`: the views that there are."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.server.freshness import LogEnds, freshness
from riverrun.server.places import reader_of
from riverrun.views.dropping import drop


@click.group("views")
def command() -> None:
    """Views: tables of programs that are looked up by key. See docs/views.md.

    \b
    riverrun views list
    riverrun views drop per_country
    """


@command.command("list")
@options.json_option
def list_(as_json: bool) -> None:
    """The views that there are, who writes them, and how fresh each is."""
    settings = options.settings()
    reader, ends = reader_of(settings), LogEnds(settings)
    found = []
    for view in reader.views():
        note = reader.last(view.application)
        fresh = freshness(view, note, ends.of(view.ways.topics))
        types = dict(view.layout.columns)
        facts = {"view": view.name, "application": view.application, "key": view.layout.key}
        found.append({**facts, "columns": types, "rows": reader.count(view.name), **fresh})
    if as_json:
        say_json(found)
        return
    columns = ("view", "application", "key", "rows", "revision", "clock", "behind")
    rows = [
        tuple(_text(each[name]) for name in columns)
        for each in found
    ]  # fmt: skip
    print_grid(columns, rows, numbers={"rows", "behind"})


@command.command("drop")
@click.argument("view")
@click.confirmation_option(prompt="The view and its changes are deleted. Go on?")
def drop_(view: str) -> None:
    """Delete VIEW and its changes: for a view that no program writes any longer."""
    drop(reader_of(options.settings()), view)
    click.echo(f"dropped {view}")


def _text(value: object) -> str:
    if value is None:
        return "-"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
