"""`riverrun backup`: an application's checkpoint as one file."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.progress import byte_bar


@click.command("backup")
@click.argument("app")
@click.argument("file", type=click.Path(path_type=Path))
@options.json_option
def command(app: str, file: Path, as_json: bool) -> None:
    """Write the checkpoint of APP, which must not be running, to FILE (.tar.zst or .tar.gz).

    `riverrun restore` brings it back. Topics and databases are not part of it.

    \b
    riverrun backup shop shop.tar.zst
    """
    from riverrun.runtime.backup import backup  # noqa: PLC0415 - slow to import

    with byte_bar() as progress:
        made = backup(options.settings(), app, file, progress)
    size = file.stat().st_size
    if as_json:
        say_json({"application": app, "file": str(file), "bytes": size, "files": len(made.files)})
    else:
        click.echo(f"wrote {file}: {len(made.files):,} files, {size:,} bytes")
