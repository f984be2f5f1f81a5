"""`riverrun deployments`: every version of an application that ever ran beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.runtime.deployments import Deployment

COLUMNS = ("version", "state", "public", "at", "by", "from", "sha256", "file")


@click.command("deployments")
@click.argument("app")
@options.json_option
def command(app: str, as_json: bool) -> None:
    """List all deployments of APP, in their order: who, when, which file, and their state.

    `current` is what `riverrun run` runs. See docs/deploy.md.

    \b
    riverrun deployments shop
    riverrun deployments shop --json
    """
    # Spark only when it is needed
    from riverrun.runtime.deployments import deployments  # noqa: PLC0415

    found = list(deployments(settings := options.settings(), app))
    if not found:
        raise InputError(
            f"{app!r} has not run here, and no version of it", where=settings.home,
            hint="`riverrun ps` lists those that have; `riverrun deploy` makes a version",
        )  # fmt: skip
    if as_json:
        say_json([each.as_dict() for each in found])
    else:
        print_grid(COLUMNS, map(_cells, found), numbers=())


def _cells(found: Deployment) -> tuple[str, ...]:
    entry = found.entry
    return (
        entry.version, found.state, "public" if found.public else "", entry.at, entry.by,
        entry.start, entry.sha256[:12], entry.file,
    )  # fmt: skip
