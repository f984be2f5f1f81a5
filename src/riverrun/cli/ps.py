"""`riverrun ps`: the applications that run or have run here."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid

if TYPE_CHECKING:
    from riverrun.runtime.applications import Application

COLUMNS = ("application", "state", "pid", "master", "for", "batch", "events")


@click.command("ps")
@options.json_option
def command(as_json: bool) -> None:
    """List the applications that run or have run here, and how they ended.

    One that was stopped, that finished (`run --once`), that failed (with its error) and that died
    (killed, or its machine) are told apart. One that is held is being backed up or restored.

    \b
    riverrun ps
    riverrun ps --json
    """
    # Spark only when it is needed
    from riverrun.runtime.applications import applications  # noqa: PLC0415

    found = list(applications(options.settings()))
    if as_json:
        say_json([_data(each) for each in found])
    elif not found:
        click.echo("no application has run here yet (`riverrun run` runs one)")
    else:
        print_grid(COLUMNS, map(_cells, found), numbers={"pid", "batch", "events"})


def _data(found: Application) -> dict[str, Any]:
    """With the names that lag and clocks have for the same."""
    facts = asdict(found)
    return {"application": facts.pop("name"), **facts}


def _cells(found: Application) -> tuple[str, ...]:
    numbers = ("" if each is None else f"{each:,}" for each in (found.batch, found.events))
    return (
        found.name, _state(found), str(found.pid or ""), found.master or "", _lasted(found),
        *numbers,
    )  # fmt: skip


def _state(found: Application) -> str:
    aside = f", set aside: {', '.join(found.aside)}" if found.aside else ""
    if found.error:
        return f"{found.state}: {found.error.splitlines()[0]}{aside}"
    paused = f", paused: {', '.join(found.paused)}" if found.running and found.paused else ""
    return f"{found.state}{paused}{aside}"


def _lasted(found: Application) -> str:
    """How long it ran; nobody knows when one died."""
    ended_at = time.time() if found.running else found.ended_at
    if found.started_at is None or ended_at is None:
        return ""
    return f"{max(ended_at - found.started_at, 0):,.0f} s"
