"""`riverrun tail`: show the records of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from threading import Event
from typing import TYPE_CHECKING, Any

import click
from confluent_kafka import Message

from riverrun import exact
from riverrun.cli import interrupts, options, say_json
from riverrun.cli.revealed import keys_of, mark
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka.browse import Browser, Offsets
from riverrun.kafka.lines import text

if TYPE_CHECKING:
    from riverrun.forgetting import Keys

COUNT = 10


@click.command("tail")
@click.argument("topic", type=options.TopicName())
@click.option(
    "-n", "count", type=click.IntRange(0), help="At most this many records. [default: 10]"
)
@click.option("--from", "start", metavar="earliest|latest|TIME", help="Where to begin.")
@click.option("--follow", is_flag=True, help="Go on with new records until Ctrl-C.")
@click.option(
    "--reveal", metavar="APP", help="Read what is personal, with the keys of the application APP."
)
@options.brokers_option
@options.json_option
def command(topic: str, **given: Any) -> None:
    """Show the last records of TOPIC, or those from a place on: committed ones only.

    TIME is a date and time in ISO 8601, UTC if it does not say otherwise. With --from there is no
    limit unless -n gives one. `--from latest` waits for new records.

    \b
    riverrun tail clicks
    riverrun tail clicks -n 3 --follow
    riverrun tail clicks --from earliest --json
    riverrun tail clicks --from 2026-11-01T12:00:00
    riverrun tail orders-copied --reveal shop
    """
    show = _show_json if given["as_json"] else _show
    moment, settings = _moment(given["start"]), options.settings(given["brokers"])
    keys = keys_of(settings, given["reveal"]) if given["reveal"] else None
    browser = Browser(kafka.client(settings), topic)
    with interrupts.heard() as ended, browser:
        for message in _chosen(browser, moment, given, ended):
            if ended.is_set():
                break
            show(message, keys)
        if ended.is_set():
            # How following ends: nothing went wrong.
            click.echo(err=True)


def _chosen(
    browser: Browser, moment: str | datetime | None, given: dict[str, Any], ended: Event
) -> Iterator[Message]:
    count, follow = given["count"], given["follow"]
    if moment is None:
        last = browser.last(COUNT if count is None else count)
        return chain(last, browser.follow(browser.latest, ended) if follow else ())
    starts = _starts(browser, moment)
    endless = follow or moment == "latest"
    return islice(browser.follow(starts, ended) if endless else browser.read(starts), count)


def _starts(browser: Browser, moment: str | datetime) -> Offsets:
    if isinstance(moment, datetime):
        return browser.since(moment)
    return browser.earliest if moment == "earliest" else browser.latest


def _moment(start: str | None) -> str | datetime | None:
    if start in (None, "earliest", "latest"):
        return start
    try:
        moment = datetime.fromisoformat(start)
    except ValueError as error:
        raise InputError(
            "the start is neither earliest, nor latest, nor a time",
            where="--from",
            got=start,
            hint="e.g. --from 2026-11-01T12:00:00",
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _show(message: Message, keys: Keys | None) -> None:
    place = click.style(f"{message.partition()}/{message.offset()}", dim=True)
    at = click.style(_time(message), dim=True)
    key = click.style(_key(message) or "-", fg="cyan")
    headers = click.style(f" {text(_headers(message))}", dim=True) if _headers(message) else ""
    value, forgotten = _read(message, keys)
    click.echo(f"{place}  {at}  {key}  {value}{headers}{mark(forgotten)}")


def _read(message: Message, keys: Keys | None) -> tuple[str, list[str]]:
    """The value, and where something in it is forgotten."""
    content = message.value()
    if keys is None or content is None:
        return _value(message), []
    found = keys.reveal(_parsed(content))
    text = found.value if isinstance(found.value, str) else exact.dumps(found.value)
    return text, found.forgotten


def _key(message: Message) -> str | None:
    key = message.key()
    return None if key is None else _decoded(key)


def _value(message: Message) -> str:
    content = message.value()
    return click.style("(tombstone)", fg="yellow") if content is None else _decoded(content)


def _show_json(message: Message, keys: Keys | None) -> None:
    content = message.value()
    value = None if content is None else _parsed(content)
    found = keys.reveal(value) if keys else None
    say_json(
        {
            "key": _key(message),
            "value": found.value if found else value,
            **({"forgotten": found.forgotten} if found and found.forgotten else {}),
            "timestamp": message.timestamp()[1],
            "partition": message.partition(),
            "offset": message.offset(),
            "headers": _headers(message),
        }
    )


def _time(message: Message) -> str:
    moment = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00")


def _headers(message: Message) -> dict[str, str | None]:
    found = dict(message.headers() or ())
    return {name: None if value is None else _decoded(value) for name, value in found.items()}


def _parsed(content: bytes | str) -> Any:
    try:
        return exact.loads(content)
    except ValueError:
        return _decoded(content)


def _decoded(content: bytes | str) -> str:
    """Text, with bytes that are none shown as escapes."""
    return content if isinstance(content, str) else content.decode(errors="backslashreplace")
