"""`riverrun ps`: the applications that run or have run here."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid

if TYPE_CHECKING:
    from riverrun.runtime.applications import Application

COLUMNS = ("application", "state", "pid", "master", "for", "batch", "events")


@click.command("ps")
@options.json_option
def command(as_json: bool) -> None:
    """List the applications that run or have run here.

    \b
    riverrun ps
    riverrun ps --json
    """
    # Spark only when it is needed
    from riverrun.runtime.applications import applications  # noqa: PLC0415

    found = list(applications(options.settings()))
    if as_json:
        say_json([asdict(each) for each in found])
    elif not found:
        click.echo("no application has run here yet (`riverrun run` runs one)")
    else:
        print_grid(COLUMNS, map(_cells, found), numbers={"pid", "batch", "events"})


def _cells(found: Application) -> tuple[str, ...]:
    since = f"{time.time() - found.started_at:,.0f} s" if found.started_at else ""
    numbers = ("" if each is None else f"{each:,}" for each in (found.batch, found.events))
    state = "running" if found.running else "stopped"
    state += f", paused: {', '.join(found.paused)}" if found.paused else ""
    return (found.name, state, str(found.pid or ""), found.master or "", since, *numbers)
