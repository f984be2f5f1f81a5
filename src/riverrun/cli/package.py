"""`riverrun package`: the environment of a program, for the executors of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_app


@click.command("package")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("env.tar.gz"),
              show_default=True, help="The archive to write.")  # fmt: skip
@click.option("--with", "also", multiple=True, metavar="PACKAGE",
              help="A further installed package, for what is imported only later.")  # fmt: skip
@options.json_option
def command(program: Path, output: Path, also: tuple[str, ...], as_json: bool) -> None:
    """Write an archive with this Python, riverrun, and the packages that PROGRAM imports.

    Executors need nothing installed then but Spark and Java.

    \b
    riverrun package app.py -o env.tar.gz
    riverrun run app.py --master spark://host:7077 --environment env.tar.gz
    """
    # what it takes is needed by this command only
    from riverrun.runtime.package import package  # noqa: PLC0415

    before = set(sys.modules)
    load_app(program)
    names = package(output, modules=set(sys.modules) - before, also=also)
    size = output.stat().st_size
    if as_json:
        say_json({"archive": output.absolute(), "bytes": size, "packages": names})
    else:
        click.echo(f"{output}: {size / 1e6:,.0f} MB, {', '.join(names)}")
