"""`riverrun try`: run a program on files and print what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from riverrun import exact
from riverrun.app import App
from riverrun.cli.program_file import load_app
from riverrun.control import RULE, Command
from riverrun.delivery.encode import Line
from riverrun.errors import InputError
from riverrun.partitions import real
from riverrun.sources.files import read_files
from riverrun.testing import Driver
from riverrun.told import read_file, told


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
@click.option(
    "--rules",
    multiple=True,
    metavar="[STEP=]FILE",
    help="Live rules, from the beginning on; the driver only.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each row as one line of JSON.")
def command(
    program: Path,
    inputs: tuple[str, ...],
    *,
    rules: tuple[str, ...],
    engine: str,
    leave_open: bool,
    as_json: bool,
) -> None:
    """Run PROGRAM on files and print what comes out. No broker is needed.

    A line of a file is the value, or an envelope:
    {"key":…,"value":…,"timestamp":ms,"partition":n,"headers":{…}}. An empty line ends a
    micro-batch. At the end of the input every window closes.

    \b
    riverrun try app.py --input views=views.jsonl
    riverrun try app.py --input views=views.jsonl --engine spark --json
    riverrun try app.py --input payments=payments.jsonl --rules fraud.toml
    """
    app = load_app(program)
    files = files_of(inputs, {real(source.topic) for source in app.program().sources})
    asked = list(_asked(app, rules))
    if engine == "spark" and asked:
        raise InputError("rules are tried with the driver", hint="leave out --engine spark")
    if engine == "spark":
        from riverrun.runtime.trial import try_on_spark  # noqa: PLC0415 - Spark only when asked for

        found = try_on_spark(app, files, ended=not leave_open)
    else:
        found = _try_on_driver(app, files, asked, ended=not leave_open)
    for line in found:
        click.echo(exact.dumps(line) if as_json else _text(line))


def _asked(app: App, rules: tuple[str, ...]) -> Iterator[Command]:
    """The rules in files, for the step that is named, or the only one that has rules."""
    known = [step.name for step in app.program().steps if step.does.kind == "rules"]
    for text in rules:
        named, equals, path = text.rpartition("=")
        if (equals and named not in known) or (not equals and len(known) != 1):
            raise InputError(
                "rules are given as STEP=FILE",
                got=text,
                hint=f"steps with rules: {', '.join(known) or 'none'}",
            )
        for rule in read_file(Path(path), "rule"):
            yield Command(0, RULE, named or known[0], rule)


def _refuse_wrong(driver: Driver) -> None:
    for known in told(driver.topics.asked):
        if known.error is not None:
            raise known.error


def _try_on_driver(
    app: App, files: dict[str, Path], asked: list[Command], *, ended: bool
) -> list[Line]:
    driver = Driver(app)
    driver.timed = True
    driver.topics = read_files(files)
    for each in asked:
        driver.control(each.kind, each.target, **each.body)
    if asked:
        driver.batch_up_to({})
        _refuse_wrong(driver)
    found = [line for cut in driver.topics.cuts for line in driver.batch_up_to(cut)]
    return found + (driver.end() if ended else [])


def files_of(inputs: tuple[str, ...], topics: set[str]) -> dict[str, Path]:
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
