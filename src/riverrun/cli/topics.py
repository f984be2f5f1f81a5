"""`riverrun topics`: list, create, delete and describe topics."""

from __future__ import annotations

from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.kafka.admin import APPEND_TIME, TIMESTAMP_TYPE
from riverrun.kafka.browse import Browser


@click.group("topics", invoke_without_command=True)
@options.brokers_option
@options.json_option
@click.pass_context
def command(ctx: click.Context, brokers: str | None, as_json: bool) -> None:
    """List the topics of the broker, or create, delete and describe one.

    \b
    riverrun topics
    riverrun topics create clicks --partitions 4
    riverrun topics create prices --compact --config segment.ms=60000
    riverrun topics describe clicks --json
    riverrun topics delete clicks --yes
    """
    if ctx.invoked_subcommand is None:
        _show(_client(brokers), internal=False, as_json=as_json)


@command.command("list")
@click.option("--internal", is_flag=True, help="Also the topics of Kafka itself.")
@options.brokers_option
@options.json_option
@click.pass_context
def list_(ctx: click.Context, internal: bool, brokers: str | None, as_json: bool) -> None:
    """List topics with their partitions, offsets and settings.

    Offsets are those from the first to the next: of records, marks of transactions, and gaps that
    compaction has left.

    \b
    riverrun topics list --internal
    """
    _show(_client(brokers, ctx), internal=internal, as_json=_json(as_json, ctx))


@command.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 2**31 - 1), default=1, show_default=True)
@click.option("--compact", is_flag=True, help="Keep the latest record of each key.")
@click.option("--append-time", is_flag=True, help="Records have the broker's time, not their own.")
@click.option("--config", "config", multiple=True, metavar="NAME=VALUE", help="A topic setting.")
@options.brokers_option
@options.json_option
@click.pass_context
def create(ctx: click.Context, /, name: str, **given: Any) -> None:
    """Create a topic, and return once it can be written.

    \b
    riverrun topics create clicks --partitions 4
    riverrun topics create prices --compact --config segment.ms=60000
    riverrun topics create clicks --append-time
    """
    config = {"cleanup.policy": "compact"} if given["compact"] else {}
    config |= {TIMESTAMP_TYPE: APPEND_TIME} if given["append_time"] else {}
    config |= dict(map(_setting, given["config"]))
    partitions: int = given["partitions"]
    admin.create_topic(_client(given["brokers"], ctx), name, partitions=partitions, config=config)
    if _json(given["as_json"], ctx):
        say_json({"created": name, "partitions": partitions, "config": config})
    else:
        plural = "" if partitions == 1 else "s"
        click.echo(f"created topic {name} with {partitions} partition{plural}")


@command.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.brokers_option
@options.json_option
@click.pass_context
def delete(ctx: click.Context, /, name: str, **given: Any) -> None:
    """Delete a topic and its records.

    \b
    riverrun topics delete clicks --yes
    """
    client = _client(given["brokers"], ctx)
    topic = admin.describe(client, name)
    if not given["yes"]:
        click.confirm(f"delete topic {name} and its {topic.span:,} offsets?", abort=True)
    admin.delete_topic(client, name)
    if _json(given["as_json"], ctx):
        say_json({"deleted": name})
    else:
        click.echo(f"deleted topic {name}")


@command.command("describe")
@click.argument("name")
@click.option("--count", is_flag=True, help="Read the topic, and count its committed records.")
@options.brokers_option
@options.json_option
@click.pass_context
def describe(
    ctx: click.Context, name: str, count: bool, brokers: str | None, as_json: bool
) -> None:
    """Show a topic's partitions with their offsets, and its settings.

    \b
    riverrun topics describe clicks
    riverrun topics describe clicks --count
    """
    client = _client(brokers, ctx)
    topic = admin.describe(client, name)
    counted = {"records": _count(client, name)} if count else {}
    if _json(as_json, ctx):
        say_json({**_as_dict(topic), **counted, "offsets": [vars(p) for p in topic.partitions]})
        return
    rows = [(str(p.number), f"{p.start:,}", f"{p.end:,}") for p in topic.partitions]
    print_grid(
        ["partition", "first offset", "next offset"], rows, numbers={"first offset", "next offset"}
    )
    for setting, value in {**counted, **topic.config}.items():
        click.echo(f"{setting} = {value}")


def _count(client: dict[str, str], topic: str) -> int:
    with Browser(client, topic) as browser:
        return sum(1 for _ in browser.read(browser.earliest))


def _show(client: dict[str, str], *, internal: bool, as_json: bool) -> None:
    found = admin.topics(client, internal=internal)
    if as_json:
        say_json([_as_dict(topic) for topic in found])
    elif not found:
        click.echo("there are no topics (`riverrun topics create NAME` makes one)")
    else:
        columns = ["topic", "partitions", "offsets", "settings"]
        print_grid(columns, map(_row, found), numbers={"partitions", "offsets"})


def _row(topic: admin.Topic) -> tuple[str, ...]:
    settings = ", ".join(f"{name}={value}" for name, value in topic.config.items())
    return topic.name, str(len(topic.partitions)), f"{topic.span:,}", settings


def _as_dict(topic: admin.Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "span": topic.span,
        "config": dict(topic.config),
    }


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(
            "a topic setting is NAME=VALUE",
            where="--config",
            got=text,
            hint="e.g. segment.ms=60000",
        )
    return name, value


def _client(brokers: str | None, ctx: click.Context | None = None) -> dict[str, str]:
    return kafka.client(options.settings(brokers or _outer(ctx, "brokers")))


def _json(as_json: bool, ctx: click.Context) -> bool:
    return as_json or bool(_outer(ctx, "as_json"))


def _outer(ctx: click.Context | None, name: str) -> Any:
    """An option that was given before the subcommand: `riverrun topics --json list`."""
    return ctx.parent.params.get(name) if ctx and ctx.parent else None
