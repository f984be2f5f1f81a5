"""`riverrun stop`: stop a running application."""

from __future__ import annotations

from datetime import timedelta

import click

from riverrun.cli import options, say_json
from riverrun.errors import JobError


@click.command("stop")
@click.argument("app")
@click.option("--now", is_flag=True, help="Do not finish the batch; the next run repeats it.")
@options.timeout_option("2 minutes", "How long to wait for it.", name="--patience", none=True)
@options.json_option
def command(app: str, now: bool, patience: timedelta, as_json: bool) -> None:
    """Stop the application APP, started with `run` or `submit`, and wait until it has stopped.

    The batch that runs is finished and committed. The next run goes on after it.

    \b
    riverrun stop shop
    riverrun stop shop --now
    """
    # Spark only when it is needed
    from riverrun.runtime.applications import application, stop  # noqa: PLC0415

    settings = options.settings()
    found = application(settings, app)
    seconds = patience.total_seconds()
    if found.running and not stop(settings, app, "now" if now else "drain", patience=seconds):
        raise JobError(
            f"the application {app!r} still runs",
            where=f"process {found.pid}",
            got=f"no end after {seconds:g} seconds",
            hint=f"its log is {found.log}; --now does not wait for the batch",
        )
    if as_json:
        say_json({"application": app, "stopped": found.running})
    else:
        click.echo(f"{app} is stopped" if found.running else f"{app} was not running")
