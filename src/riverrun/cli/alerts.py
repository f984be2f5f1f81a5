"""`riverrun alerts`: what stands, who has taken it on, and what is silenced."""

from __future__ import annotations

import getpass
from typing import Any

import click

from riverrun.alerting import Alerts, Standing
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.durations import time_text
from riverrun.errors import InputError
from riverrun.operators.alert.silences import Silence, value_text

by_option = click.option("--by", metavar="NAME", help="Who you are; else the name of your account.")
comment_option = click.option("--comment", metavar="TEXT", help="What others are told.")


@click.group("alerts")
def command() -> None:
    """Alerts of an application: see docs/alerts.md.

    \b
    riverrun alerts list shop
    riverrun alerts show shop 5b0cf1
    riverrun alerts ack shop 5b0cf1 --comment "looking"
    riverrun alerts silence shop service=pay --lasts "2 hours" --comment "upgrade"
    riverrun alerts unsilence shop 9f86d081
    """


@command.command("list")
@click.argument("app")
@options.brokers_option
@options.json_option
def list_(app: str, brokers: str | None, as_json: bool) -> None:
    """List the alerts of the application APP that stand, and the silences that hold.

    The application need not run.

    \b
    riverrun alerts list shop
    riverrun alerts list shop --json
    """
    alerts = Alerts(app, brokers=brokers)
    standing, silences = alerts.standing(), alerts.silences()
    if as_json:
        listed = [
            {"step": step, **each.data} for step, several in silences.items() for each in several
        ]
        say_json({"alerts": [each.data for each in standing], "silences": listed})
        return
    if not standing:
        click.echo(f"{app} has no alerts")
    else:
        columns = ("alert", "step", "group", "state", "n", "since", "title")
        print_grid(columns, [_row(each) for each in standing], numbers={"n"})
    for step, several in silences.items():
        for each in several:
            click.echo(f"silence {each.id} of {step}: {_silence_text(each)}")


@command.command("show")
@click.argument("app")
@click.argument("alert")
@options.brokers_option
@options.json_option
def show(app: str, alert: str, brokers: str | None, as_json: bool) -> None:
    """Show an alert of the application APP, and all that was told of it.

    ALERT is its name, or the beginning of it. One that is over is found by its whole name.

    \b
    riverrun alerts show shop 5b0cf1
    """
    alerts = Alerts(app, brokers=brokers)
    try:
        found: Standing | None = alerts.find(alert)
    except InputError:
        found = None
    told = alerts.history(found.alert if found else alert)
    if found is None and not told:
        raise InputError(f"there is no alert {alert!r}", hint=f"riverrun alerts list {app}")
    if as_json:
        say_json({"alert": found.data if found else None, "told": told})
        return
    if found is not None:
        click.secho(f"{found.alert} {found.step}: {_group(found)}", bold=True)
        for name, fact in found.data.items():
            if name not in ("alert", "step", "group", "text", "title") and fact is not None:
                click.echo(f"  {name}: {value_text(fact)}")
    for note in told:
        click.echo(f"{note['at']}  {note['kind']}, level {note['level']}: {note['title']}")


@command.command("ack")
@click.argument("app")
@click.argument("alert")
@by_option
@comment_option
@options.brokers_option
@options.json_option
def ack(app: str, alert: str, as_json: bool, **given: Any) -> None:
    """Acknowledge an alert of the application APP: nobody else is called, nothing is repeated.

    That it is over is still told. ALERT is its name, or the beginning of it.

    \b
    riverrun alerts ack shop 5b0cf1 --by ann --comment "looking"
    """
    alerts, by = Alerts(app, brokers=given["brokers"]), given["by"] or getpass.getuser()
    found, effect = alerts.acknowledge(alert, by=by, comment=given["comment"] or None)
    if as_json:
        say_json({"alert": found.alert, "step": found.step, "in effect": effect})
        return
    click.echo(f"{found.alert}, {_group(found)}: acknowledged{_when(alerts, effect)}")


@command.command("silence")
@click.argument("app")
@click.argument("matchers", nargs=-1, required=True, metavar="MATCHER...")
@click.option("--lasts", default="1 hour", show_default=True, help="How long it holds.")
@click.option("--step", metavar="NAME", help="For the alerts of one step alone.")
@by_option
@comment_option
@options.brokers_option
@options.json_option
def silence(app: str, matchers: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Tell nothing of some groups of the application APP for a time.

    A MATCHER is COLUMN=VALUE, COLUMN!=VALUE, COLUMN=~PATTERN or COLUMN!~PATTERN, over the columns
    that alerts are grouped by; all have to hold. What is due then is told when the time is over.

    \b
    riverrun alerts silence shop service=pay --lasts "2 hours" --comment "upgrade"
    riverrun alerts silence shop "service=~test-.*" region=eu --by ann
    """
    alerts = Alerts(app, brokers=given["brokers"])
    made, effect = alerts.silence(
        *matchers, lasts=given["lasts"], by=given["by"] or getpass.getuser(),
        comment=given["comment"] or None, step=given["step"],
    )  # fmt: skip
    if as_json:
        say_json({**made.data, "in effect": effect})
        return
    click.echo(f"silence {made.id}: {_silence_text(made)}{_when(alerts, effect)}")


@command.command("unsilence")
@click.argument("app")
@click.argument("id")
@options.brokers_option
@options.json_option
def unsilence(app: str, id: str, brokers: str | None, as_json: bool) -> None:
    """End a silence of the application APP before its time.

    \b
    riverrun alerts unsilence shop 9f86d081
    """
    alerts = Alerts(app, brokers=brokers)
    effect = alerts.unsilence(id)
    if as_json:
        say_json({"id": id, "in effect": effect})
        return
    click.echo(f"silence {id}: ended{_when(alerts, effect)}")


def _row(standing: Standing) -> tuple[str, ...]:
    facts = standing.facts
    state = f"{facts['state']}, silenced" if standing.silenced else facts["state"]
    title = facts["title"] or ""
    return (
        standing.alert, standing.step, _group(standing), state, str(facts["n"]), facts["since"],
        title,
    )  # fmt: skip


def _group(standing: Standing) -> str:
    return ", ".join(f"{name}={value_text(value)}" for name, value in standing.group.items())


def _silence_text(silence: Silence) -> str:
    matchers = ", ".join(f"{each.column}{each.how}{each.value}" for each in silence.matchers)
    comment = f": {silence.comment}" if silence.comment else ""
    return f"{matchers} until {time_text(silence.until)}, by {silence.by}{comment}"


def _when(alerts: Alerts, effect: bool) -> str:
    if effect:
        return ""
    return ", with its next batch" if alerts.running else ", when the application runs next"
