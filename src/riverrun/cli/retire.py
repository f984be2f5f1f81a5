"""`riverrun retire`: a version that is not wanted any longer, with all that is its own."""

from __future__ import annotations

import click

from riverrun.cli import options, say_json
from riverrun.versions import Version


@click.command("retire")
@click.argument("app")
@click.argument("version")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.brokers_option
@options.json_option
def command(app: str, version: str, yes: bool, brokers: str | None, as_json: bool) -> None:
    """Remove VERSION of APP: its checkpoint, topics, views, tables and folders.

    It must not be running: nothing is stopped. What it was stays in `riverrun deployments`.

    \b
    riverrun retire shop v2
    riverrun retire shop v2 --yes
    """
    # Spark only when it is needed
    from riverrun.embedded import kafka  # noqa: PLC0415
    from riverrun.runtime.deploy import retire  # noqa: PLC0415
    from riverrun.runtime.deployments import require  # noqa: PLC0415

    settings, named = options.settings(brokers), Version.named(app, version)
    require(settings, named)
    if not yes:
        click.confirm(
            f"The checkpoint of {named.application} and all that it has written are deleted."
            " Go on?",
            abort=True,
        )
    removed = retire(settings, named, kafka.ensure(settings))
    if as_json:
        say_json({"removed": removed.gone, "stays": removed.stays})
        return
    click.echo(f"retired {named.application}: its checkpoint is gone, and with it")
    for each in removed.gone:
        click.echo(f"  {each}")
    for each in removed.stays:
        click.echo(f"what it has written there stays: {each}")
