"""`riverrun topics`: list, create, delete, describe and alter topics."""

from __future__ import annotations

from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.left import print_left, setting_line
from riverrun.cli.progress import count_bar
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka import admin, compaction
from riverrun.kafka.admin import APPEND_TIME, TIMESTAMP_TYPE
from riverrun.kafka.compaction import table_settings


@click.group("topics", invoke_without_command=True)
@options.brokers_option
@options.json_option
@click.pass_context
def command(ctx: click.Context, brokers: str | None, as_json: bool) -> None:
    """List the topics of the broker, or create, delete, describe and alter one.

    \b
    riverrun topics
    riverrun topics create clicks --partitions 4
    riverrun topics create prices --compact --config segment.ms=60000
    riverrun topics describe clicks --json
    riverrun topics alter prices min.compaction.lag.ms=86400000
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
@click.argument("name", type=options.TopicName())
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

    Compaction leaves records alone for the `compaction_lag` of the settings, a day if they say
    nothing: a batch that is run again must find all that it has read.
    """
    lag = options.settings().compaction_lag // 1000
    config = table_settings(lag) if given["compact"] else {}
    config |= {TIMESTAMP_TYPE: APPEND_TIME} if given["append_time"] else {}
    config |= dict(_setting(text, "--config") for text in given["config"])
    partitions: int = given["partitions"]
    admin.create_topic(_client(given["brokers"], ctx), name, partitions=partitions, config=config)
    if _json(given["as_json"], ctx):
        say_json({"created": name, "partitions": partitions, "config": config})
    else:
        plural = "" if partitions == 1 else "s"
        click.echo(f"created topic {name} with {partitions} partition{plural}")


@command.command("delete")
@click.argument("name", type=options.TopicName())
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
@click.argument("name", type=options.TopicName())
@click.option("--count", is_flag=True, help="Read the topic, and count what is there.")
@options.brokers_option
@options.json_option
@click.pass_context
def describe(
    ctx: click.Context, name: str, count: bool, brokers: str | None, as_json: bool
) -> None:
    """Show a topic's partitions with their offsets, and the settings that it lives by.

    With --count the topic is read: how many committed records are there of all offsets that were
    given out, of how many keys, how many are marks of deletion, the bytes of keys and values, and
    how much of them is superseded by a later record of the same key: what compaction may still
    remove. Brokers do not tell more of it.

    \b
    riverrun topics describe clicks
    riverrun topics describe prices --count
    """
    client = _client(brokers, ctx)
    topic, settings = (
        admin.describe(client, name),
        compaction.deciding(admin.settings(client, name)),
    )
    with count_bar() as progress:
        counts = compaction.left(client, name, progress) if count else {}
    if _json(as_json, ctx):
        say_json(_described(topic, settings, counts))
        return
    print_left(topic, counts)
    for setting, value in {**settings, **topic.config}.items():
        click.echo(setting_line(setting, value, own=setting in topic.config))


def _described(
    topic: admin.Topic, settings: dict[str, str], counts: dict[int, compaction.Left]
) -> dict[str, Any]:
    offsets = [vars(p) | (counts[p.number].facts() if counts else {}) for p in topic.partitions]
    every = [each.facts() for each in counts.values()]
    totals = {name: sum(each[name] for each in every) for name in every[0]} if every else {}
    return {**_as_dict(topic), "settings": settings, **totals, "offsets": offsets}


@command.command("alter")
@click.argument("name", type=options.TopicName())
@click.argument("settings", nargs=-1, required=True, metavar="SETTING=VALUE…")
@options.brokers_option
@options.json_option
@click.pass_context
def alter(ctx: click.Context, /, name: str, **given: Any) -> None:
    """Change settings of a topic. One without a value is given back to the broker.

    \b
    riverrun topics alter prices cleanup.policy=compact min.compaction.lag.ms=86400000
    riverrun topics alter prices segment.ms=
    """
    asked = {k: v or None for k, v in (_setting(text, name) for text in given["settings"])}
    client = _client(given["brokers"], ctx)
    compaction.changed(client, name, asked)
    config = dict(admin.describe(client, name).config)
    if _json(given["as_json"], ctx):
        say_json({"altered": name, "config": config})
        return
    for setting, value in asked.items():
        click.echo(f"{name}: {setting} " + ("is the broker's" if value is None else f"= {value}"))


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


def _setting(text: str, where: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(
            "a topic setting is NAME=VALUE",
            where=where,
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
