"""`riverrun describe`: show what a program reads, computes and writes."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_app
from riverrun.errors import InputError
from riverrun.plan.describe import as_dict, as_text, topology
from riverrun.plan.mermaid import as_mermaid


@click.command("describe")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart.")
@options.json_option
def command(program: Path, mermaid: bool, as_json: bool) -> None:
    """Show what PROGRAM reads, computes and writes, each with its line. Nothing is started.

    \b
    riverrun describe app.py
    riverrun describe app.py --mermaid > topology.mmd
    riverrun describe app.py --json
    """
    if mermaid and as_json:
        raise InputError("--mermaid and --json cannot be combined")
    app = load_app(program)
    app.program()
    described = topology(app.name, app.pages, tuple(app.outputs), app.delivery)
    if as_json:
        say_json(as_dict(described))
    elif mermaid:
        click.echo(as_mermaid(described))
    else:
        click.echo(as_text(described, Path.cwd()))
