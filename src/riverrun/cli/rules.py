"""`riverrun rules`: event patterns of a running application: add, list, show, remove."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.asked import ask, line, print_known, timeout_option
from riverrun.control import REMOVE_RULE, RULE
from riverrun.errors import InputError
from riverrun.rules import Rules
from riverrun.told import Known, read_file

step_option = click.option(
    "--step", metavar="NAME", help="The step with rules; needed if the program has several."
)


@click.group("rules")
def command() -> None:
    """Event patterns of an application that change while it runs: see docs/rules.md.

    \b
    riverrun rules add shop large-payments.toml
    riverrun rules list shop
    riverrun rules show shop large-payments
    riverrun rules remove shop large-payments
    """


@command.command("add")
@click.argument("app")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@step_option
@timeout_option
@options.brokers_option
@options.json_option
def add(app: str, file: Path, as_json: bool, **given: Any) -> None:
    """Add the rules in FILE to the application APP, or change those of the same names.

    FILE is TOML if its name ends with .toml, else JSON. A rule has a name, a pattern or the name of
    one of the program's templates, parameters and metadata. It sees rows from the job's clock on;
    a version before it sees none from there on. One that is refused changes nothing, and the
    others are added.

    \b
    riverrun rules add shop large-payments.toml
    riverrun rules add shop rules.json --step fraud --timeout 60

    \b
    [[rule]]
    name = "large-payments"
    template = "spree"
    parameters = {small = 1, large = 500}
    metadata = {owner = "risk"}
    """
    found = read_file(file, "rule")
    _ask(app, RULE, found, as_json=as_json, **given)


@command.command("remove")
@click.argument("app")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@step_option
@timeout_option
@options.brokers_option
@options.json_option
def remove(app: str, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Remove rules from the application APP; what they have not found by then, they do not find.

    \b
    riverrun rules remove shop large-payments
    """
    _ask(app, REMOVE_RULE, [{"name": name} for name in names], as_json=as_json, **given)


@command.command("list")
@click.argument("app")
@step_option
@click.option("--all", "everything", is_flag=True, help="Also rules that are removed or refused.")
@options.brokers_option
@options.json_option
def list_(app: str, step: str | None, everything: bool, brokers: str | None, as_json: bool) -> None:
    """List the rules of the application APP, and since when each is in effect.

    A change that was refused leaves the version before it in effect: `riverrun rules show` tells.

    \b
    riverrun rules list shop
    riverrun rules list shop --all --json
    """
    columns = {
        "rule": lambda each: each.name, "version": lambda each: each.version,
        "state": lambda each: each.state, "from": lambda each: each.effective, "what": _about,
    }  # fmt: skip
    rules = Rules(app, step, brokers=brokers)
    print_known(rules, columns, everything=everything, as_json=as_json)


@command.command("show")
@click.argument("app")
@click.argument("name")
@step_option
@options.brokers_option
@options.json_option
def show(app: str, name: str, step: str | None, brokers: str | None, as_json: bool) -> None:
    """Show all that was asked of a rule, and what was answered.

    \b
    riverrun rules show shop large-payments
    """
    found = [each for each in Rules(app, step, brokers=brokers).history() if each.name == name]
    if not found:
        raise InputError(
            f"{app!r} has never had a rule {name!r}", hint=f"riverrun rules list {app}"
        )
    if as_json:
        say_json([asdict(each) for each in found])
        return
    for each in found:
        click.secho(line("rule", each), bold=True)
        for part, value in each.asked.items():
            if part != "name" and each.state != "removed":
                shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                click.echo(f"  {part}: {shown.strip()}")


def _ask(
    app: str, kind: str, asked: list[dict[str, Any]], *, step: str | None, brokers: str | None,
    **given: Any,
) -> None:  # fmt: skip
    ask(Rules(app, step, brokers=brokers), kind, asked, **given)


def _about(known: Known) -> str:
    asked = known.asked
    if asked.get("template") is None:
        return " ".join(str(asked.get("pattern", "")).split())[:60]
    values = asked.get("parameters")  # of a rule that was refused they may be anything
    shown = [f"{n}={value}" for n, value in values.items()] if isinstance(values, dict) else []
    return " ".join([str(asked["template"]), *shown])
