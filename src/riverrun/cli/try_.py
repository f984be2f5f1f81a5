"""`riverrun try`: run a program on files and print what comes out."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun import exact
from riverrun.app import App
from riverrun.cli.program_file import load_app
from riverrun.delivery.encode import Line
from riverrun.errors import InputError
from riverrun.sources.files import read_files
from riverrun.testing import Driver


@click.command(name="try")
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="TOPIC=FILE",
    help="A topic's records, as JSON lines.",
)
@click.option(
    "--engine", type=click.Choice(["driver", "spark"]), default="driver", show_default=True
)
@click.option(
    "--open", "leave_open", is_flag=True, help="Leave windows open at the end of the input."
)
@click.option("--json", "as_json", is_flag=True, help="Print each row as one line of JSON.")
def command(
    program: Path, inputs: tuple[str, ...], engine: str, leave_open: bool, as_json: bool
) -> None:
    """Run PROGRAM on files and print what comes out. No broker is needed.

    A line of a file is the value, or an envelope:
    {"key":…,"value":…,"timestamp":ms,"partition":n,"headers":{…}}. An empty line ends a
    micro-batch. At the end of the input every window closes.

    \b
    riverrun try app.py --input views=views.jsonl
    riverrun try app.py --input views=views.jsonl --engine spark --json
    """
    app = load_app(program)
    files = _files(inputs, {source.topic for source in app.program().sources})
    if engine == "spark":
        from riverrun.runtime.trial import try_on_spark  # noqa: PLC0415 - Spark only when asked for

        found = try_on_spark(app, files, ended=not leave_open)
    else:
        found = _try_on_driver(app, files, ended=not leave_open)
    for line in found:
        click.echo(exact.dumps(line) if as_json else _text(line))


def _try_on_driver(app: App, files: dict[str, Path], *, ended: bool) -> list[Line]:
    driver = Driver(app)
    driver.topics = read_files(files)
    found = [line for cut in driver.topics.cuts for line in driver.batch_up_to(cut)]
    return found + (driver.end() if ended else [])


def _files(inputs: tuple[str, ...], topics: set[str]) -> dict[str, Path]:
    files = {}
    for text in inputs:
        topic, equals, path = text.partition("=")
        if not equals:
            raise InputError("an input is given as TOPIC=FILE", got=text)
        if topic not in topics:
            raise InputError(
                f"the program does not read {topic!r}",
                hint=f"it reads: {', '.join(sorted(topics))}",
            )
        if topic in files:
            raise InputError(f"the input of {topic!r} is given twice", got=text)
        files[topic] = Path(path)
    if not files:
        example = " ".join(f"--input {topic}=FILE.jsonl" for topic in sorted(topics))
        raise InputError("no input is given", hint=example)
    return files


def _text(line: Line) -> str:
    revision = f"  revision {line['revision']}" if line.get("revision") else ""
    return f"{line['output']}  {line['op']}  {exact.dumps(line['value'])}{revision}"
