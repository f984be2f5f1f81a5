"""`riverrun send`: a command to an aggregate, and what became of it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import click

from riverrun import exact
from riverrun.cli import options, say_json
from riverrun.commands import Commands, Reply
from riverrun.errors import InputError


@click.command("send")
@click.argument("aggregate", metavar="[APP.]KIND/ID")
@click.argument("type", metavar="COMMAND")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE … | JSON]")
@click.option("--id", metavar="ID", help="Its id: one that was sent before takes effect once.")
@click.option(
    "--version", type=click.IntRange(0), metavar="N",
    help="Reject it if the aggregate has another version.",
)  # fmt: skip
@click.option("--by", metavar="NAME", help="Who sends it; kept with the events.")
@options.timeout_option("30 seconds", "How long to wait for the reply.")
@options.brokers_option
@options.json_option
def command(aggregate: str, type: str, fields: tuple[str, ...], **given: Any) -> None:
    """Send COMMAND to the aggregate ID of a running application, and wait for what becomes of it.

    Its fields are given one by one, as JSON or plain text, or as one JSON object. Exit code 1 if it
    is rejected or fails.

    \b
    riverrun send account/42 Deposit amount=100
    riverrun send bank.account/42 Withdraw '{"amount": 30}' --by ann --version 7
    riverrun send account/42 Close --id close-42 --json
    """
    from riverrun.happened import place_of  # noqa: PLC0415 - help needs no client

    settings = options.settings(given["brokers"])
    name, to = kind_and_id(aggregate)
    place = place_of(settings, name)
    with Commands(place.commands, replies=place.replies, settings=settings) as commands:
        reply = commands.send(
            (type, fields_of(fields)), to=to, id=given["id"], version=given["version"],
            by=given["by"], timeout=given["timeout"],
        )  # fmt: skip
    if given["as_json"]:
        say_json(asdict(reply))
    else:
        _show(reply)
    if not reply.accepted:
        sys.exit(1)


def kind_and_id(text: str) -> tuple[str, str]:
    kind, _, own = text.partition("/")
    if not kind or not own:
        raise InputError("an aggregate is named with its kind", got=text, hint="account/42")
    return kind, own


def fields_of(given: tuple[str, ...]) -> dict[str, Any]:
    """`amount=100 owner=Ann`, or one JSON object."""
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        try:
            found: dict[str, Any] = exact.loads(given[0])
        except ValueError as error:
            raise InputError("the fields are not JSON", got=error) from error
        return found
    pairs = [each.partition("=") for each in given]
    if wrong := [name for name, sign, _ in pairs if not sign or not name]:
        raise InputError("a field is NAME=VALUE", got=wrong[0], hint="amount=100 owner=Ann")
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str) -> Any:
    try:
        found = exact.loads(text)
    except ValueError:  # a text need not have quotes
        return text
    return text if text.lstrip("-") in ("NaN", "Infinity") else found


def _show(reply: Reply) -> None:
    colour = "green" if reply.accepted else "red"
    why = f": {reply.reason}" if reply.reason else ""
    click.echo(f"{click.style(reply.outcome, fg=colour)}{why}")
    for each in reply.events:
        click.echo(f"  {each.version}  {each.type}  {json.dumps(each.event, ensure_ascii=False)}")
    click.secho(f"{reply.aggregate} has version {reply.version}", dim=True, err=True)
