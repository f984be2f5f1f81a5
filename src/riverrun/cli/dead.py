"""`riverrun dead`: records that failed: list them, look at one, send them again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.progress import count_bar
from riverrun.embedded import kafka
from riverrun.kafka.dead import DeadLetter, DeadLetters, Retry, found

SHOWN = 60
"""Characters of a value in a list."""

step_option = click.option("--step", metavar="TEXT", help="Only of steps with this in their name.")
cause_option = click.option("--cause", metavar="TEXT", help="Only causes with this in them.")


@click.group("dead")
def command() -> None:
    """Records of an application, or of a queue's group, that could not be read or processed.

    \b
    riverrun dead list shop
    riverrun dead show shop views/0/1234
    riverrun dead retry shop views/0/1234
    riverrun dead retry shop --all --cause "is not a BIGINT"
    """


@command.command("list")
@click.argument("app")
@step_option
@cause_option
@click.option("-n", "count", type=click.IntRange(0), default=20, show_default=True,
              help="Show the last so many letters.")  # fmt: skip
@options.brokers_option
@options.json_option
def list_(app: str, count: int, brokers: str | None, as_json: bool, **wanted: str | None) -> None:
    """List the dead letters of APP: how many of each cause, and the last ones.

    \b
    riverrun dead list shop
    riverrun dead list shop --cause "is not JSON" -n 100
    riverrun dead list shop --json
    """
    letters = list(_matching(_letters(app, brokers).read(), wanted))
    groups = Counter((each.step, _kind(each), each.state) for each in letters)
    last = letters[len(letters) - min(count, len(letters)) :]
    if as_json:
        names = ("step", "cause", "state")
        grouped = [{**dict(zip(names, g, strict=True)), "count": n} for g, n in groups.items()]
        say_json({"groups": grouped, "letters": [_as_dict(each) for each in last]})
        return
    if not letters:
        click.echo("there are no dead letters")
        return
    rows = [(f"{n:,}", state, step, kind) for (step, kind, state), n in groups.most_common()]
    print_grid(["letters", "state", "step", "cause"], rows, numbers={"letters"})
    click.echo()
    columns = ["place", "time", "state", "step", "cause", "value"]
    print_grid(columns, map(_row, last), numbers=())
    if len(last) < len(letters):
        click.echo(f"… and {len(letters) - len(last):,} before them")


@command.command("show")
@click.argument("app")
@click.argument("place")
@options.brokers_option
@options.json_option
def show(app: str, place: str, brokers: str | None, as_json: bool) -> None:
    """Show all that is known of one record, and its bytes as they were.

    A letter of which a part was cut, since its topic takes no larger ones, is shown with the record
    as it is in its own topic, if it is still there.

    PLACE is TOPIC/PARTITION/OFFSET, as `riverrun dead list` shows it.

    \b
    riverrun dead show shop views/0/1234
    riverrun dead show shop views/0/1234 --json
    """
    dead = _letters(app, brokers)
    letters = dead.read()
    found({name: each for each in letters for name in (each.place, each.own)}, place)
    asked = (each for each in letters if place in (each.place, each.own))
    chosen = [dead.whole(each) or each for each in asked]
    if as_json:
        say_json([_as_dict(each) for each in chosen])
        return
    for letter in chosen:
        for name, text in _facts(letter):
            click.echo(f"{click.style(f'{name:<10}', dim=True)} {text}")


@command.command("retry")
@click.argument("app")
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@click.option("--all", "everything", is_flag=True, help="All letters that are open.")
@step_option
@cause_option
@options.brokers_option
@options.json_option
def retry(app: str, places: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Send records again to the topics and partitions that they came from.

    Key, value, headers and timestamp are the original ones. A record and the mark that it was
    retried are written in one transaction, so it is sent once. One that fails again is a new
    letter.

    \b
    riverrun dead retry shop views/0/1234 views/1/77
    riverrun dead retry shop --all
    riverrun dead retry shop --all --step decode --cause "is not a BIGINT"
    """
    if bool(places) == everything:
        raise click.UsageError("give places, or --all")
    letters = _letters(app, given["brokers"])
    task = letters.retry(None if everything else places)
    wanted = {name: given[name] for name in ("step", "cause")}
    task.only({each.place for each in _matching(task.chosen, wanted)})
    sent = _send(task)
    if given["as_json"]:
        say_json({"application": app, "retried": sent})
    else:
        click.echo(f"sent {sent:,} record{'' if sent == 1 else 's'} again")


def _send(task: Retry) -> int:
    sent = 0
    with count_bar() as progress:
        for count in task.send():
            sent += count
            progress(sent, len(task))
    return sent


def _letters(app: str, brokers: str | None) -> DeadLetters:
    return DeadLetters(kafka.client(options.settings(brokers)), app)


def _matching(letters: list[DeadLetter], wanted: dict[str, str | None]) -> Iterator[DeadLetter]:
    for letter in letters:
        if (wanted["step"] or "") in letter.step and (wanted["cause"] or "") in letter.cause:
            yield letter


def _kind(letter: DeadLetter) -> str:
    """The cause without what is different in each record."""
    return "too far ahead" if letter.step == "max_ahead" else letter.cause.partition(":")[0]


def _row(letter: DeadLetter) -> tuple[str, ...]:
    value = _text(letter.content("value")) or letter.facts["row"] or ""
    shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
    cause = letter.cause.splitlines()[0]
    return letter.place, _time(letter.at), letter.state, letter.step, cause, shown


def _facts(letter: DeadLetter) -> Iterator[tuple[str, str]]:
    yield "place", letter.place
    yield "letter", f"{letter.own}, {_time(letter.at)}, {letter.state}"
    yield "step", letter.step
    yield "cause", letter.cause
    yield "timestamp", str(letter.facts["timestamp"])
    yield "key", _text(letter.content("key")) or "none"
    for header in letter.facts.get("headers") or ():
        content = header["value"] if header["value_base64"] is None else header["value_base64"]
        yield "header", f"{header['name']}: {content}"
    if letter.facts["row"] is not None:
        yield "row", letter.facts["row"]
    if letter.cut:
        yield "cut", f"{', '.join(letter.cut)}: this is only a part"
    value = letter.content("value")
    yield "value", "none" if value is None else _text(value) or "(empty)"


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="backslashreplace")


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(" ", "seconds").removesuffix("+00:00")


def _as_dict(letter: DeadLetter) -> dict[str, Any]:
    own = {"place": letter.place, "letter": letter.own, "state": letter.state}
    return {**own, **json.loads(json.dumps(letter.facts))}
