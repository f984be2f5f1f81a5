"""`riverrun rebuild-state`: all states of aggregates, made of their events alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.history import program_option, rules_of
from riverrun.cli.progress import long_bar
from riverrun.control import REBUILD_STATE, Command

if TYPE_CHECKING:
    from riverrun.happened import Comparison

SHOWN = 20
LONG = 300
"""Characters of a state, at most."""


@click.command("rebuild-state")
@click.argument("kind", metavar="[APP.]KIND")
@click.option(
    "--apply", "applied", is_flag=True,
    help="The running application makes its states anew, and decides nothing meanwhile.",
)  # fmt: skip
@program_option
@options.brokers_option
@options.json_option
def command(
    kind: str, applied: bool, program: Path | None, brokers: str | None, as_json: bool
) -> None:
    """Make the states of all aggregates from the topic of events, and compare them with those that
    the running application has. Exit code 1 if they differ.

    Where the program has other rules than the application runs by, it says so: --program names
    the file that the application runs.

    \b
    riverrun rebuild-state account
    riverrun rebuild-state bank.account --apply
    """
    from riverrun.happened import Topics, compared, place_of  # noqa: PLC0415 - help needs no client
    from riverrun.kafka.control import ControlLog  # noqa: PLC0415

    settings = options.settings(brokers)
    place = place_of(settings, kind)
    rules = rules_of(program, place)
    with long_bar() as asking, long_bar() as reading:
        found = compared(settings, place, rules, asking=asking, reading=reading)
    if as_json:
        say_json(vars(found))
    else:
        _show(found)
    if applied:
        log = ControlLog(Topics(settings).client, place.application)
        log.send(Command(0, REBUILD_STATE, place.events))
        click.echo(f"{place.application} makes its states anew with its next batch", err=True)
    if found.differing:
        sys.exit(1)


def _show(found: Comparison) -> None:
    if found.other_rules:
        click.secho(found.other_rules, fg="yellow")
    counted = f"{found.aggregates:,} states, made of {found.events:,} events"
    if not found.differing:
        click.secho(f"{counted}: all are equal", fg="green")
        return
    click.secho(f"{counted}: {len(found.differing):,} differ", fg="red")
    for each in found.differing[:SHOWN]:
        made = each["of_events"]
        here, of_events = _only_different(each["state"], made["state"])
        click.echo(f"  {each['aggregate']}")
        click.echo(f"    here       version {each['version']}  {_text(here)}")
        click.echo(f"    of events  version {made['version']}  {_text(of_events)}")
    if (more := len(found.differing) - SHOWN) > 0:
        click.echo(f"  and {more:,} more; --json has all")


def _only_different(one: dict[str, Any], other: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The fields in which two states differ."""
    names = [name for name in {**one, **other} if one.get(name, ...) != other.get(name, ...)]
    return tuple({name: s[name] for name in names if name in s} for s in (one, other))


def _text(state: dict[str, Any]) -> str:
    text = json.dumps(state, ensure_ascii=False)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
