"""`riverrun forget`: destroy the key of a subject, and look for copies that can be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid

if TYPE_CHECKING:
    from riverrun.runtime.forgetting.forget import Report


@click.command("forget")
@click.argument("who", metavar="SUBJECT")
@click.option("--app", required=True, metavar="APP", help="The application that knows it.")
@click.option("--subject", "kind", metavar="KIND", help="The kind of subject, if SUBJECT has none.")
@click.option(
    "--also", type=click.Path(path_type=Path, exists=True), multiple=True, metavar="PATH",
    help="Look there, too, e.g. at backups.",
)  # fmt: skip
@options.json_option
def command(who: str, app: str, kind: str | None, also: tuple[Path, ...], as_json: bool) -> None:
    """Forget SUBJECT, such as customer/42: what is personal of it can never be read again.

    The key dies after the batch that is under way. Then rows of the subject are deleted from
    topics of tables that are keyed by it, and all that the application has written is searched for
    copies that can be read. If this is killed, run it again: it goes on.

    \b
    riverrun forget customer/42 --app shop
    riverrun forget 42 --subject customer --app shop --also /backups --json
    """
    from riverrun.runtime.forgetting.forget import forget  # noqa: PLC0415 - slow to import

    def step(text: str) -> None:
        if not as_json:
            click.secho(f"{text} …", dim=True, err=True)

    report = forget(options.settings(), app, (who, kind), also=also, step=step)
    if as_json:
        say_json(report.data())
    else:
        _show(report)
    if not report.done:
        sys.exit(1)


def _show(report: Report) -> None:
    from riverrun.runtime.forgetting.forget import NOT_KNOWN, WAITING  # noqa: PLC0415

    if report.key == "not known":
        click.echo(f"{report.subject}: nothing is known of it, and nothing was done")
        click.secho(NOT_KNOWN, fg="yellow", err=True)
        return
    if report.key == "waiting":
        click.echo(f"{report.subject}: the key is not destroyed yet")
        click.secho(WAITING, fg="yellow", err=True)
        return
    verb = "is" if report.key == "destroyed" else ""
    click.echo(f"{report.subject}: the key {verb} {report.key}".replace("  ", " "))
    for topic in report.tombstones:
        click.echo(f"tombstone  {topic}")
    for text in report.deleted:
        click.echo(f"deleted    its row of the {text}")
    numbers = ("parts", "bytes", "readable")
    rows = [(e.place, f"{e.parts:,}", f"{e.bytes:,}", str(e.found)) for e in report.looked_at]
    print_grid(("looked at", *numbers), rows, numbers=numbers)
    short = f"; {report.too_short} shorter than 4 bytes were not" if report.too_short else ""
    click.echo(f"looked for {report.values} forms of its values{short}")
    for text in report.not_looked_at:
        click.echo(f"not looked at: {text} (what it was given is sealed)")
    for topic, kept in report.not_forgotten.items():
        text = f"not forgotten: {topic}, which others write, keeps it {_long(kept)}"
        click.secho(text, fg="yellow")
    for place in report.readable:
        click.secho(f"readable: {place}", fg="red")


def _long(kept: str) -> str:
    return kept if kept.startswith(("until", "for")) else f"for {kept}"
