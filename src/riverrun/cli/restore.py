"""`riverrun restore`: an application's checkpoint back from a file."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.progress import byte_bar

AGAIN = (
    "the next run goes on from there; results since the backup are written again"
    " (tables end up the same, streams have those rows twice)"
)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "name", metavar="NAME", help="Restore under another application's name.")
@click.option("--force", is_flag=True, help="Replace the checkpoint that is there.")
@options.json_option
def command(file: Path, name: str | None, force: bool, as_json: bool) -> None:
    """Put the checkpoint in FILE, which `riverrun backup` wrote, in place.

    All of FILE is checked before anything changes. What the application has written since the
    backup stays where it is, and is written again.

    \b
    riverrun restore shop.tar.zst
    riverrun restore shop.tar.zst --force
    riverrun restore shop.tar.zst --as shop-copy
    """
    from riverrun.runtime.backup import restore  # noqa: PLC0415 - slow to import

    settings = options.settings()
    with byte_bar() as progress:
        found = restore(file, settings, name=name, force=force, progress=progress)
    application, root = found.application if name is None else name, settings.checkpoint_root
    if as_json:
        say_json({"application": application, "made_at": found.made_at, "folder": str(root)})
    else:
        click.echo(f"restored {application} as it was at {found.made_at}; {AGAIN}")
