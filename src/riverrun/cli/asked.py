"""What is asked of a step by the control log: sent, waited for, and shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.control import control_topic
from riverrun.durations import duration_text, microseconds
from riverrun.told import Asked, Known

WIDEST = 100
"""Of what a table shows: what was refused may be of any length."""

timeout_option = options.timeout_option(
    "30 seconds", "How long to wait for the job's answer.", none=True
)


def ask(
    step: Asked, kind: str, asked: list[dict[str, Any]], *, timeout: timedelta, as_json: bool
) -> list[Known]:
    """Sends commands, and tells what the job answers."""
    running = step.running
    answered = step.ask(kind, list(asked), timeout if running else None)
    if as_json:
        say_json([asdict(each) for each in answered])
    else:
        for each in answered:
            click.echo(line(step.noun, each))
    if late := [each for each in answered if each.state == "not answered"]:
        _say_what_is_known(step, late, timeout=timeout, running=running)
    if (late and running) or any(each.state == "refused" for each in answered):
        sys.exit(2)
    return answered


def _say_what_is_known(
    step: Asked, late: list[Known], *, timeout: timedelta, running: bool
) -> None:
    app, command = step.application, "rules" if step.noun == "rule" else "queries"
    if not running:
        click.echo(f"{app} does not run: it answers when it runs next", err=True)
        return
    read, last = step.read - 1, max(each.offset for each in late)
    waited = duration_text(microseconds(timeout))
    click.echo(
        f"no answer within {waited}: the last is record {last} of {control_topic(app)}, "
        f"and {app} has read that up to record {read}; `riverrun {command} list {app}` tells more",
        err=True,
    )


def line(noun: str, known: Known) -> str:
    """What is known, in a line."""
    own = f"{noun} {known.name}"
    match known.state:
        case "in effect":
            return f"{own}, version {known.version}: rows from {known.effective} on"
        case "removed":
            return f"{own}: removed, rows before {known.effective}"
        case "ended":
            return f"{own}, version {known.version}: ended as the program changed: {known.error}"
        case "not answered":
            return f"{own}: not answered yet"
        case "refused":
            return f"{own}: refused: {known.error}"
        case _:
            raise ValueError(known.state)


def print_known(
    step: Asked,
    columns: Mapping[str, Callable[[Known], object]],
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """What stands at a step, or also what is removed or refused; each column with its cells."""
    found = [*(step.all() if everything else step.standing()).values()]
    if as_json:
        say_json([asdict(each) for each in found])
        return
    if not found:
        click.echo(f"{step.application} has no {step.several}")
        return
    rows = [tuple(str(cell(each) or "")[:WIDEST] for cell in columns.values()) for each in found]
    print_grid(tuple(columns), rows, numbers={"version"})
