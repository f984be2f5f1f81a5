"""`riverrun new`: a project that runs and is tested, to begin with."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.new_files import FILES
from riverrun.config import named
from riverrun.errors import InputError


@click.command("new")
@click.argument("name")
@options.json_option
def command(name: str, as_json: bool) -> None:
    """Make a folder NAME with a program, its test, a Makefile and settings.

    \b
    riverrun new shop
    cd shop
    make test
    make run
    """
    folder = Path(named(name))
    if folder.exists():
        raise InputError(
            f"there is a {name!r} already", where=folder.absolute(), hint="choose another name"
        )
    folder.mkdir()
    for file, text in FILES.items():
        (folder / file).write_text(text.replace("NAME", name))
    if as_json:
        say_json({"folder": str(folder.absolute()), "files": list(FILES)})
    else:
        click.echo(f"made {folder}: {', '.join(FILES)}")
        # `python` on the path may be another one, without riverrun
        found = shutil.which("python")
        same = found is not None and Path(found) == Path(sys.executable)
        python = "" if same else f" PYTHON={shlex.quote(sys.executable)}"
        click.echo(
            f"`cd {folder} && make test{python}` runs its test, `make run{python}` the program"
        )
