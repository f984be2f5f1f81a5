"""`riverrun lag`: what applications have still to read, and whether they will get there in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.clocks import behind_text
from riverrun.cli.grid import print_grid
from riverrun.cli.live import graceful
from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka.backlog import Backlog, backlogs
from riverrun.kafka.lag import LAG, noted
from riverrun.runtime import checkpoint

COLUMNS = ("application", "partition", "behind", "for", "in /s", "out /s", "caught up in", "")
AGAIN = 2.0
"""Seconds between two looks."""


@click.command("lag")
@click.argument("app", required=False)
@click.option("--watch", is_flag=True, help="Look again every two seconds, until Ctrl-C.")
@click.option(
    "--fail-above",
    type=click.IntRange(0),
    metavar="N",
    help="Exit with 1 if an application is more than N records behind.",
)
@options.brokers_option
@options.json_option
def command(
    app: str | None, watch: bool, fail_above: int | None, brokers: str | None, as_json: bool
) -> None:
    """Show what APP, or each application that has run here, has still to read.

    It is told per partition, in records and in time: how long the first unread record has been
    waiting. A warning tells when retention is about to delete what was not read. The application
    need not be running: its progress is the consumer group of its name.

    \b
    riverrun lag
    riverrun lag shop --watch
    riverrun lag shop --fail-above 100000
    """
    settings = options.settings(brokers)
    with graceful():
        found = _look(settings, app, as_json)
        while watch:
            time.sleep(AGAIN)
            found = _look(settings, app, as_json, clear=True)
    if fail_above is not None and any(sum(_behind(each)) > fail_above for each in found.values()):
        raise SystemExit(1)


def _look(
    settings: Settings, app: str | None, as_json: bool, *, clear: bool = False
) -> dict[str, list[Backlog]]:
    client = kafka.client(settings)
    files = {name: settings.run_of(name) / "status" / LAG for name in _names(settings, app)}
    runs = {name: checkpoint.holder(settings.checkpoint_of(name)) is not None for name in files}
    found = {
        name: backlogs(client, name, noted(file) if runs[name] else None)
        for name, file in files.items()
    }
    if app and not found[app]:
        known = _names(settings, None)
        raise InputError(
            f"{app!r} has read nothing yet" if app in known
            else f"nothing is known of the application {app!r}",
            got=f"the consumer group {app!r} has no offsets",
            hint="ask again after its first batch" if app in known
            else f"those that have run here: {', '.join(known) or 'none'}",
        )  # fmt: skip
    if as_json:
        say_json([as_dict(name, each) for name, all_of in found.items() for each in all_of])
    else:
        _show(found, clear=clear)
    return found


def _names(settings: Settings, app: str | None) -> list[str]:
    """The one that was asked for, or those that have run here."""
    return [app] if app else sorted(f.parent.name for f in settings.home.glob("runs/*/status"))


def _show(found: dict[str, list[Backlog]], *, clear: bool) -> None:
    if clear:
        click.clear()
    rows = [row for name, all_of in found.items() for row in _rows(name, all_of)]
    if rows:
        print_grid(COLUMNS, rows, numbers=set(COLUMNS[2:7]))
    else:
        click.echo("no application has run yet (`riverrun run` runs one)")


def as_dict(app: str, each: Backlog) -> dict[str, Any]:
    return {
        "application": app,
        "topic": each.partition.topic,
        "partition": each.partition.number,
        "read": each.read,
        "end": each.end,
        "behind": each.behind,
        "behind_seconds": _rounded(each.behind_seconds),
        "rate_in": _rounded(each.rate_in),
        "rate_out": _rounded(each.rate_out),
        "catch_up_seconds": _rounded(each.catch_up_seconds),
        "lost": each.lost,
        "deleted_in_seconds": _rounded(each.deleted_in_seconds),
        "warning": warning(each),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _rows(app: str, found: list[Backlog]) -> Iterator[tuple[str, ...]]:
    for each in found:
        yield (
            app,
            str(each.partition),
            f"{each.behind:,}",
            "?" if each.behind_seconds is None else behind_text(each.behind_seconds),
            _rate(each.rate_in),
            _rate(each.rate_out),
            _catch_up(each),
            warning(each) or "",
        )
    if len(found) > 1:
        yield (app, "total", f"{sum(_behind(found)):,}", *[""] * 5)


def _behind(found: list[Backlog]) -> Iterator[int]:
    return (each.behind for each in found)


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:,.0f}"


def _catch_up(each: Backlog) -> str:
    if each.catch_up_seconds is not None:
        return behind_text(each.catch_up_seconds)
    return "?" if each.rate_in is None or each.rate_out is None else "never"


def warning(each: Backlog) -> str | None:
    if each.lost:
        return f"{each.lost:,} unread records have been deleted"
    if each.deleted_in_seconds is not None:
        return f"unread records will be deleted in about {behind_text(each.deleted_in_seconds)}"
    return None
