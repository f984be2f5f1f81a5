"""`riverrun promote`: the version whose results are public, from a position of the input on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_version
from riverrun.versions import CURRENT, Version

if TYPE_CHECKING:
    from riverrun.runtime.promote import Promoted


@click.command("promote")
@click.argument("app")
@click.argument("version")
@options.timeout_option(
    "2 minutes", "How long both may take to say where they stand; then it is given up.",
    name="--within",
)  # fmt: skip
@options.brokers_option
@options.json_option
def command(
    app: str, version: str, *, within: timedelta, brokers: str | None, as_json: bool
) -> None:
    """Make VERSION of APP the one whose results are public, and back: `current` is what `riverrun
    run` runs.

    Both run. The one that is public now is so up to a position of the input, the other from there
    on; tables get their difference. Killed at any moment, the same command goes on.

    \b
    riverrun promote shop v2
    riverrun promote shop current
    """
    # Spark only when it is needed
    from riverrun.embedded import kafka  # noqa: PLC0415
    from riverrun.runtime.applications import application  # noqa: PLC0415
    from riverrun.runtime.deployments import require  # noqa: PLC0415
    from riverrun.runtime.promote import Promote  # noqa: PLC0415

    settings, patience = options.settings(brokers), within.total_seconds()
    named = Version(app, CURRENT) if version == CURRENT else Version.named(app, version)
    # one that nobody knows gets no topic
    application(settings, app) if named.name == CURRENT else require(settings, named)
    promote = Promote(settings, kafka.ensure(settings), named, _tell)
    if not promote.going_on():
        promote.require_running()
        both = (promote.former, named)
        promote.require({each.name: load_version(each, settings) for each in both})
        promote.caught_up(patience)
        promote.ask()
    found = promote.wait(patience)
    if as_json:
        say_json(found.as_dict())
    else:
        _show(found)


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _show(found: Promoted) -> None:
    places = ", ".join(f"{name} {end:,}" for name, end in sorted(found.at.items()))
    click.echo(
        f"{found.version} of {found.application} is public from {places} on; {found.former} was"
        f" up to there. The switch took {found.seconds:.1f} s"
    )
