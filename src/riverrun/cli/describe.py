"""`riverrun describe`: show what a program reads, computes and writes."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_app
from riverrun.compiler.describe import as_dict, as_text
from riverrun.compiler.mermaid import as_mermaid
from riverrun.compiler.passes import passed
from riverrun.compiler.versioned import versioned
from riverrun.errors import InputError
from riverrun.versions import Version


@click.command("describe")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart.")
@click.option("--as", "version", help="As `riverrun deploy --as VERSION` would run it.")
@options.json_option
def command(program: Path, mermaid: bool, version: str | None, as_json: bool) -> None:
    """Show what PROGRAM reads, computes and writes, each with its line. Nothing is started.

    \b
    riverrun describe app.py
    riverrun describe app.py --mermaid > topology.mmd
    riverrun describe app.py --json
    riverrun describe app.py --as v2
    """
    if mermaid and as_json:
        raise InputError("--mermaid and --json cannot be combined")
    app = load_app(program)
    app.program()
    plan = app.plan()
    if version is not None:
        plan = versioned(plan, Version.named(app.name, version))
    described = passed(plan)
    if as_json:
        say_json(as_dict(described))
    elif mermaid:
        click.echo(as_mermaid(described))
    else:
        click.echo(as_text(described, Path.cwd()))
