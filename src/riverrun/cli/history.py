"""`riverrun history`: what has happened to an aggregate, and its state at any point."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_app
from riverrun.cli.progress import long_bar
from riverrun.cli.revealed import keys_of, mark, reveal_option
from riverrun.cli.send import kind_and_id
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.forgetting import Keys
    from riverrun.happened import Past, Place, Recorded, Redecided
    from riverrun.operators.decide.rules import Rules


program_option = click.option(
    "--program", type=click.Path(path_type=Path), metavar="FILE",
    help="The program; without it, the file that the application last ran from.",
)  # fmt: skip


@click.command("history")
@click.argument("aggregate", metavar="[APP.]KIND/ID")
@click.option("--version", type=click.IntRange(0), metavar="N", help="As it was after event N.")
@click.option("--at", metavar="TIME", help="As it was at this time, in ISO 8601.")
@click.option(
    "--replay-decisions", "replay", is_flag=True,
    help="Also what today's code would decide of each command.",
)  # fmt: skip
@reveal_option
@program_option
@options.brokers_option
@options.json_option
def command(aggregate: str, **given: Any) -> None:
    """Show the events of the aggregate ID, and the state that they lead to.

    All is made of the topic of events alone; the application need not run. With
    --replay-decisions every command is decided once more, from the state of its time, by the
    code that the program has now: what would be different is marked.

    \b
    riverrun history account/42
    riverrun history account/42 --version 3
    riverrun history account/42 --at 2026-01-01T12:00:00Z --json
    riverrun history bank.account/42 --replay-decisions --program new_bank.py
    """
    from riverrun.happened import Topics, place_of  # noqa: PLC0415 - help needs no client

    settings = options.settings(given["brokers"])
    name, own = kind_and_id(aggregate)
    place = place_of(settings, name)
    rules, topics = rules_of(given["program"], place), Topics(settings)
    with long_bar() as progress:
        past = topics.past(rules, place, own, progress)
        commands = topics.commands(rules, place, own, progress) if given["replay"] else []
    if not past.events:
        raise InputError(f"nothing has happened to {place.step}/{own}", where=place.events)
    version = _version(past, given["version"], given["at"])
    decided = list(past.redecided(commands))
    keys = keys_of(settings, place.application) if given["reveal"] else None
    if given["as_json"]:
        found = _as_dict(past, version, decided)
        say_json(keys.reveal(found).value if keys else found)
    else:
        _show(f"{place.step}/{own}", past, version, keys)
        if given["replay"]:
            _show_decided(decided, keys)


def rules_of(program: Path | None, place: Place) -> Rules:
    """The rules of an aggregate, from the program's file."""
    file = program or place.program
    if file is None:
        raise InputError(
            f"the program of {place.application!r} is not known", hint="name it: --program FILE"
        )
    for each in load_app(file).aggregates:
        if each.node.name == place.step:
            return each.rules
    raise InputError(f"the program has no aggregates {place.step!r}", where=file)


def _version(past: Past, version: int | None, at: str | None) -> int:
    if version is not None and at is not None:
        raise InputError("--version and --at are two ways to say the same", hint="give one")
    if version is not None:
        if version > len(past.events):
            raise InputError(f"it has had {len(past.events)} events", got=f"--version {version}")
        return version
    if at is None:
        return len(past.events)
    moment = _moment(at)
    return sum(_moment(each.at) <= moment for each in past.events)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "2026-01-01T12:00:00Z"
        raise InputError("a time is in ISO 8601", got=text, hint=hint) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _show(name: str, past: Past, version: int, keys: Keys | None) -> None:
    of = f" of {len(past.events)}" if version < len(past.events) else ""
    click.echo(f"{click.style(name, bold=True)}  version {version}{of}")
    for field, value in past.state(version).items():
        found = keys.reveal(value) if keys else None
        text = json.dumps(found.value if found else value, ensure_ascii=False)
        gone = mark([field]) if found and found.forgotten else ""
        click.echo(f"  {click.style(field, fg='cyan')}  {text}{gone}")
    click.echo()
    columns = ("version", "at", "event", "data", "by", "command")
    print_grid(columns, (_row(each, keys) for each in past.events[:version]), numbers={"version"})


def _row(each: Recorded, keys: Keys | None) -> tuple[str, ...]:
    event = each.event
    data = json.dumps(keys.reveal(json.loads(event.data)).value) if keys else event.data
    return (str(each.version), each.at, event.type, data, each.by or "", each.command)


def _show_decided(decided: list[Redecided], keys: Keys | None) -> None:
    click.echo()
    rows = [_decided_row(each) for each in decided]
    if keys:
        rows = [tuple(keys.reveal(text).value for text in row) for row in rows]
    print_grid(("command", "then", "now", ""), rows, numbers=())
    other = sum(each.same is False for each in decided)
    text = f"{other} of {len(decided)} commands would be decided differently"
    if gone := sum(each.same is None for each in decided):
        text += f"; {gone} cannot be compared, since what they held is forgotten"
    click.secho(text, fg="yellow" if other or gone else "green")


VERDICTS = {True: "", False: "differs", None: "not comparable: forgotten"}


def _decided_row(each: Redecided) -> tuple[str, ...]:
    now = each.reason or ", ".join(f"{e.type} {e.data}" for e in each.events) or each.outcome
    then = ", ".join(f"{e.event.type} {e.event.data}" for e in each.then) or "no event"
    what = f"{each.sent.value.get('type')} {json.dumps(each.sent.value.get('data'))}"
    return (what, then, now, VERDICTS[each.same])


def _as_dict(past: Past, version: int, decided: list[Redecided]) -> dict[str, Any]:
    return {
        "version": version,
        "state": past.state(version),
        "events": [
            {
                "version": each.version, "type": each.event.type,
                "schema_version": each.event.schema_version, "data": json.loads(each.event.data),
                "at": each.at, "by": each.by, "command": each.command, "position": each.position,
            }
            for each in past.events[:version]
        ],
        "decisions": [
            {
                "command": each.sent.id, "type": each.sent.value.get("type"),
                "then": [e.event.type for e in each.then], "now": [e.type for e in each.events],
                "outcome": each.outcome, "reason": each.reason, "same": each.same,
            }
            for each in decided
        ],
    }  # fmt: skip
