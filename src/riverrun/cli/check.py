"""`riverrun check`: what a changed program would do with its checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riverrun.capture.declared import Captured
from riverrun.capture.known import captures
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_app
from riverrun.errors import BrokerError
from riverrun.kernels.program import Program

if TYPE_CHECKING:
    from riverrun.runtime.topic_checks import Findings

NEW = "not yet; `riverrun run` begins with a snapshot"
HINT = 'keep="30 days", or a window, lets state end: see docs/state.md'
COLUMNS = ("part", "name", "change", "outcome", "why")


@click.command("check")
@click.argument("program", type=click.Path(path_type=Path))
@options.json_option
def command(program: Path, as_json: bool) -> None:
    """Compare PROGRAM with its checkpoint. Nothing is started, and nothing changed.

    If its broker runs, topics are looked at: whether they are there and may be read and written,
    whether their last records can be read, and whether they keep them for long enough.

    The exit code is 0 if `riverrun run` would go on, and 2 if it would refuse.

    \b
    riverrun check app.py
    riverrun check app.py --json
    """
    # Spark only when it is needed
    from riverrun.compiler.growth import growing  # noqa: PLC0415
    from riverrun.compiler.shape import shape  # noqa: PLC0415
    from riverrun.compiler.upgrades import read, refused, verdicts  # noqa: PLC0415
    from riverrun.runtime.event_topics import require_finished  # noqa: PLC0415

    app = load_app(program)
    folder = options.settings().checkpoint_of(app.name)
    before = read(folder)
    made = app.program()
    require_finished(folder, before, made)
    found = verdicts(before, shape(made), app.name)
    captured = [_captured(each) for each in app.captures]
    stops, topics, grows = refused(found), _topics(made), growing(made)
    fits = not stops and not topics.problems
    if as_json:
        made_by = before.get("riverrun") if before else None
        say_json({
            "application": app.name, "resumes": not stops, "made_by": made_by,
            "parts": [asdict(each) for each in found],
            "not_loaded_first": [
                {"topic": topic, "table": table, "why": why}
                for (topic, table), why in made.loading.not_first.items()
            ],
            "grows": [{"step": step, "with": why} for step, why in grows.items()],
            "problems": topics.problems,
            "warnings": topics.warnings,
            "captured": captured,
        })  # fmt: skip
    else:
        rows = ((v.part, v.name, v.change, v.outcome, v.why or "") for v in found)
        print_grid(COLUMNS, rows, numbers=())
        notes = (*_notes(made, captured, grows), *_said(topics))
        for text in (*notes, *(f"{each.part} {each.name}: {each.ways_out}" for each in stops)):
            click.echo(f"\n{text}")
        click.echo(f"\n{app.name} {_outcome(stops=bool(stops), fits=fits, has_run=bool(before))}")
    if not fits:
        sys.exit(2)


def _notes(
    program: Program, captured: list[dict[str, str]], grows: dict[str, str]
) -> Iterator[str]:
    for (topic, awaited), why in program.loading.not_first.items():
        yield f"{topic} is read without loading {awaited} first: {why}"
    for table in captured:
        yield f"{table['table']} is captured by {table['capture']}: {table['state']}"
    for step, why in grows.items():
        yield f"{step} grows without an end: it keeps {why}"
    if grows:
        yield HINT


def _said(topics: Findings) -> Iterator[str]:
    yield from (f"problem: {text}" for text in topics.problems)
    yield from (f"warning: {text}" for text in topics.warnings)


def _outcome(*, stops: bool, fits: bool, has_run: bool) -> str:
    if stops:
        return "cannot resume"
    if not fits:
        return "cannot run like this"
    return "resumes" if has_run else "starts: it has not run yet"


def _topics(program: Program) -> Findings:
    """What is to be said of topics; nothing while no broker answers."""
    from riverrun.embedded import kafka  # noqa: PLC0415
    from riverrun.runtime.compaction import compaction_warnings  # noqa: PLC0415
    from riverrun.runtime.topic_checks import Findings, topic_findings  # noqa: PLC0415

    settings = options.settings()
    if settings.brokers is None and not kafka.running(settings):
        return Findings()
    try:
        client = kafka.client(settings)
        found = topic_findings(program, client)
        found.warnings[:0] = compaction_warnings(program, client)
    except BrokerError as error:
        return Findings(warnings=[f"topics were not looked at: {error.fact}"])
    return found


def _captured(table: Captured) -> dict[str, str]:
    found = next((c for c in captures(options.settings()) if c.name == table.name), None)
    tables = found.state().tables if found else ()
    state = next((each.doing for each in tables if each.table == table.table), NEW)
    return {"table": table.table, "capture": table.name, "state": state}
