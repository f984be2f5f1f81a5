"""`riverrun check`: what a changed program would do with its checkpoint."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from riverrun.capture.declared import Captured
from riverrun.capture.known import captures
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_app
from riverrun.errors import BrokerError
from riverrun.kernels.program import Program

NEW = "not yet; `riverrun run` begins with a snapshot"
COLUMNS = ("part", "name", "change", "outcome", "why")


@click.command("check")
@click.argument("program", type=click.Path(path_type=Path))
@options.json_option
def command(program: Path, as_json: bool) -> None:
    """Compare PROGRAM with its checkpoint. Nothing is started, and nothing changed.

    If its broker runs, topics are looked at whose compaction may take what the program needs.

    The exit code is 0 if `riverrun run` would go on, and 2 if it would refuse.

    \b
    riverrun check app.py
    riverrun check app.py --json
    """
    # Spark only when it is needed
    from riverrun.compiler.shape import shape  # noqa: PLC0415
    from riverrun.runtime.upgrades import read, refused, verdicts  # noqa: PLC0415

    app = load_app(program)
    before = read(options.settings().checkpoint_of(app.name))
    made = app.program()
    found = verdicts(before, shape(made))
    not_first = made.loading.not_first
    captured = [_captured(each) for each in app.captures]
    stops = refused(found)
    warnings = _warnings(made)
    if as_json:
        made_by = before.get("riverrun") if before else None
        say_json({
            "application": app.name, "resumes": not stops, "made_by": made_by,
            "parts": [asdict(each) for each in found],
            "not_loaded_first": [
                {"topic": topic, "table": table, "why": why}
                for (topic, table), why in not_first.items()
            ],
            "warnings": warnings,
            "captured": captured,
        })  # fmt: skip
    else:
        rows = ((v.part, v.name, v.change, v.outcome, v.why or "") for v in found)
        print_grid(COLUMNS, rows, numbers=())
        for (topic, awaited), why in not_first.items():
            click.echo(f"\n{topic} is read without loading {awaited} first: {why}")
        for table in captured:
            click.echo(f"\n{table['table']} is captured by {table['capture']}: {table['state']}")
        for text in warnings:
            click.echo(f"\nwarning: {text}")
        for each in stops:
            click.echo(f"\n{each.part} {each.name}: {each.ways_out}")
        click.echo(f"\n{app.name} {'cannot resume' if stops else 'resumes'}")
    if stops:
        sys.exit(2)


def _warnings(program: Program) -> list[str]:
    """What is to be said of topics; nothing while no broker answers."""
    from riverrun.embedded import kafka  # noqa: PLC0415
    from riverrun.runtime.compaction import compaction_warnings  # noqa: PLC0415

    settings = options.settings()
    if settings.brokers is None and not kafka.running(settings):
        return []
    with suppress(BrokerError):
        return compaction_warnings(program, kafka.client(settings))
    return []


def _captured(table: Captured) -> dict[str, str]:
    found = next((c for c in captures(options.settings()) if c.name == table.name), None)
    tables = found.state().tables if found else ()
    state = next((each.doing for each in tables if each.table == table.table), NEW)
    return {"table": table.table, "capture": table.name, "state": state}
