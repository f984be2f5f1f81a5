"""`riverrun rebuild`: make an output anew from the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_as_run
from riverrun.cli.progress import long_bar

if TYPE_CHECKING:
    from riverrun.runtime.rebuild import Rebuilt


@click.command("rebuild")
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("sink")
@click.option("--anyway", is_flag=True, help="Go by what is left of the log, if it is not all.")
@options.brokers_option
@options.json_option
def command(program: Path, sink: str, anyway: bool, brokers: str | None, as_json: bool) -> None:
    """Make SINK, a table that PROGRAM writes, anew from the log, while the job goes on.

    It is made beside the old one, and put in its place between two batches: readers see the old
    rows or the new ones. Ended before that, by whatever, nothing has changed and nothing is left.

    \b
    riverrun rebuild app.py postgres:minutes
    riverrun verify app.py postgres:minutes
    """
    from riverrun.runtime.rebuild import rebuild  # noqa: PLC0415 - Spark only when it is needed
    from riverrun.runtime.target import target  # noqa: PLC0415

    settings = options.settings(brokers)
    chosen = target(load_as_run(program, settings), settings, sink)
    with long_bar() as progress:
        found = rebuild(chosen, anyway=anyway, progress=progress, tell=_tell)
    if as_json:
        say_json(found.as_dict())
    else:
        _show(found)


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _show(found: Rebuilt) -> None:
    for doubt in found.doubts:
        click.secho(f"in doubt: {doubt}", fg="yellow", err=True)
    made = found.swapped
    click.echo(
        f"{found.output}: as the log has it after batch {found.batch:,}: {made.added:,} rows added,"
        f" {made.changed:,} changed, {made.removed:,} removed"
    )
