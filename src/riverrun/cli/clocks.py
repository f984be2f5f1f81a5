"""`riverrun clocks`: how far event time has come in each step, and who holds it back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.delivery.alerts import late_share
from riverrun.durations import BEGINNING, END, time_text
from riverrun.errors import InputError

IDLE = "idle: runs on with the wall clock"
COLUMNS = ("application", "step", "clock", "behind", "held back by", "idle", "late")
SHOWN = 5
"""Names of idle sources in a cell."""


@click.command("clocks")
@click.argument("app", required=False)
@options.json_option
def command(app: str | None, as_json: bool) -> None:
    """Show the clock of each step of APP, or of all applications, after their last batch.

    The clock is the time up to which a step takes its input to be complete. It is held back by the
    slowest partition or producer that is not idle.

    \b
    riverrun clocks
    riverrun clocks shop --json
    """
    found = [row for name, status in _statuses(app) for row in rows(name, status)]
    if as_json:
        say_json(found)
    elif not found:
        click.echo("no application with windows or groups has run yet (`riverrun run` runs one)")
    else:
        print_grid(COLUMNS, map(_cells, found), numbers={"behind", "late"})


def _statuses(app: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    runs = options.settings().home / "runs"
    files = {file.parent.parent.name: file for file in sorted(runs.glob("*/status/status.json"))}
    if app is not None and app not in files:
        raise InputError(
            f"nothing is known of the application {app!r}",
            where=runs,
            hint=f"those that have run here: {', '.join(files) or 'none'}",
        )
    for name, file in files.items():
        if app in (None, name):
            yield name, _status(file)


def _status(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def rows(app: str, status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per step, for programs and for people."""
    alerts = {alert["step"]: alert for alert in status["alerts"]}
    for step, clock in sorted(status["clocks"].items()):
        mark = status["holders"].get(step, {})
        known = BEGINNING < clock < END
        count, late = status["rows"].get(step, 0), status["late"].get(step, 0)
        yield {
            "application": app,
            "step": step,
            "clock": time_text(clock) if known else None,
            "as_of": time_text(status["tick"]),
            "behind_seconds": round((status["tick"] - clock) / 1e6, 3) if known else None,
            "held_by": mark.get("held_by"),
            "idle": list(mark.get("idle", [])),
            "rows": count,
            "late": late,
            "late_share": late_share(count, late),
            "alert": alerts.get(step),
        }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    idle = ", ".join(row["idle"][:SHOWN])
    more = len(row["idle"]) - SHOWN
    alert = f", over {row['alert']['limit']:.1%}" if row["alert"] else ""
    return (
        row["application"],
        row["step"],
        row["clock"] or "nothing read yet",
        behind_text(row["behind_seconds"]),
        held_text(row),
        f"{idle}, {more} more" if more > 0 else idle,
        f"{row['late']:,} ({row['late_share']:.1%}{alert})",
    )


def held_text(row: dict[str, Any]) -> str:
    if row["held_by"]:
        return str(row["held_by"])
    return IDLE if row["clock"] else ""


def behind_text(seconds: float | None) -> str:
    """How far the clock is behind the wall clock, in the two largest units."""
    if seconds is None:
        return ""
    if seconds < 0:
        return f"{behind_text(-seconds)} ahead"
    if seconds < 60:
        return f"{seconds:.1f} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    left, parts = round(seconds), []
    for name, size in units:
        if left >= size:
            parts.append(f"{left // size} {name}")
            left %= size
    return " ".join(parts[:2])


def line(row: dict[str, Any]) -> str:
    """A step in one line of the live view."""
    if row["clock"] is None:
        return f"{row['step']}: nothing read yet"
    late = f", late {row['late']:,} ({row['late_share']:.1%})" if row["late"] else ""
    held = f"held back by {row['held_by']}" if row["held_by"] else IDLE
    behind = behind_text(row["behind_seconds"])
    where = behind if behind.endswith("ahead") else f"{behind} behind the wall clock"
    return f"{row['step']}: clock at {row['clock']}, {where}, {held}{late}"
