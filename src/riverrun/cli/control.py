"""`riverrun control`: what was asked of an application, and what is paused."""

from __future__ import annotations

import time
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.config import Settings
from riverrun.control import EVERYTHING, Command, paused_after
from riverrun.errors import InputError
from riverrun.kafka.control import ControlLog
from riverrun.partitions import real

PATIENCE = 30.0
"""Seconds to wait until a running application has taken note."""


@click.command("control")
@click.argument("app")
@options.json_option
def command(app: str, as_json: bool) -> None:
    """Show the control log of the application APP: every command, and what is paused now.

    \b
    riverrun control shop
    """
    settings = options.settings()
    topics, log = _topics(settings, app), _log(settings, app)
    commands = log.commands(0, log.end()) if log.exists() else []
    paused = paused_after([], commands, topics)
    if as_json:
        say_json({"commands": [vars(each) for each in commands], "paused": paused})
        return
    rows = [(str(c.offset), c.kind, _called(c.target)) for c in commands]
    if rows:
        print_grid(("offset", "command", "for"), rows, numbers=("offset",))
    click.echo(f"paused: {', '.join(paused) or 'nothing'}")


def ask(kind: str, app: str, targets: tuple[str, ...], *, as_json: bool) -> None:
    """Sends a command for each target, and waits until a running application has taken note."""
    settings = options.settings()
    _refuse_unknown(_topics(settings, app), app, targets)
    log, end = _log(settings, app), 0
    for target in targets or (EVERYTHING,):
        end = log.send(Command(0, kind, target))
    noted = _noted(settings, app, end)
    if as_json:
        say_json({"application": app, kind: list(targets) or EVERYTHING, "in effect": noted})
        return
    what = ", ".join(targets) or "all topics"
    click.echo(f"{kind} {what} of {app}: {'in effect' if noted else 'when it runs next'}")


def _log(settings: Settings, app: str) -> ControlLog:
    from riverrun.embedded import kafka  # noqa: PLC0415 - help needs no client

    return ControlLog(kafka.client(settings), app)


def _called(target: str) -> str:
    return "all topics" if target == EVERYTHING else target


def _topics(settings: Settings, app: str) -> list[str]:
    """What the application reads."""
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    folder = settings.checkpoint_of(app)
    known: list[str] | None = (read(folder) or {}).get("topics")
    if known is None:
        raise InputError(
            f"nothing is known of the application {app!r}", where=folder, hint="has it run here?"
        )
    return known


def _refuse_unknown(known: list[str], app: str, topics: tuple[str, ...]) -> None:
    for topic in topics:
        if topic not in {*known, *map(real, known)}:
            raise InputError(
                f"{app!r} does not read the topic {topic!r}", hint=f"it reads: {', '.join(known)}"
            )


def _noted(settings: Settings, app: str, end: int) -> bool:
    """Whether the application runs and its last batch has taken what was asked."""
    # what computes only when it is needed
    from riverrun.delivery.status import last_status  # noqa: PLC0415
    from riverrun.runtime import checkpoint  # noqa: PLC0415

    folder, status = settings.checkpoint_of(app), settings.run_of(app) / "status"
    give_up_at = time.monotonic() + PATIENCE
    while checkpoint.holder(folder) is not None and time.monotonic() < give_up_at:
        found: dict[str, Any] = last_status(status) or {}
        if found.get("control", 0) >= end:
            return True
        time.sleep(0.1)
    return False
