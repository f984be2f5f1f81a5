"""`riverrun get`: a row of a view, by its key."""

from __future__ import annotations

import sys
from typing import Any

import click

from riverrun import exact
from riverrun.cli import options, say_json
from riverrun.cli.revealed import keys_of, reveal_option
from riverrun.server.freshness import LogEnds, freshness, told
from riverrun.server.places import reader_of
from riverrun.views import Token
from riverrun.views.reading import with_nulls
from riverrun.views.tokens import Verdict


@click.command("get", context_settings={"ignore_unknown_options": True})
@click.argument("view")
@click.argument("key", nargs=-1, type=click.UNPROCESSED)
@click.option("--null", "nulls", multiple=True, metavar="COLUMN", help="It is null in the key.")
@click.option("--token", metavar="TOKEN", help="Wait until the view holds what gave this token.")
@options.timeout_option("10 seconds", "How long to wait for it.", none=True)
@reveal_option
@options.json_option
def command(view: str, key: tuple[str, ...], **given: Any) -> None:
    """Look up the row of KEY in VIEW, as it stands now. A key of several columns is several words;
    those that are null have none, and are named with --null.

    With --token, which whatever writes gives, the row holds what was written; a step that holds
    rows back is named. The last line says how fresh the view is: what batch it is of, its clock,
    and how many records of the log it does not hold yet.

    \b
    riverrun get per_country de
    riverrun get per_country_and_day de 2026-01-01 --json
    riverrun get per_country_and_day --null country 2026-01-01
    riverrun get per_user ann --token $(riverrun produce clicks --token < click.json)
    """
    settings, timeout = options.settings(), given["timeout"].total_seconds()
    reader = reader_of(settings)
    known = reader.view(view)
    token = given["token"] and Token.parse(given["token"])
    verdict = reader.awaited(view, token, timeout) if token else None
    note = reader.last(known.application)
    row = reader.get(view, with_nulls(known, key, given["nulls"]))
    forgotten: list[str] = []
    if given["reveal"]:
        found = keys_of(settings, known.application).reveal(row)
        row, forgotten = found.value, found.forgotten
    fresh = freshness(known, note, LogEnds(settings).of(known.ways.topics))
    if given["as_json"]:
        asked = {} if verdict is None else {"token": told(verdict)}
        gone = {"forgotten": forgotten} if forgotten else {}
        say_json({"row": row, **gone, **fresh, **asked})
    else:
        _show(row, view, (*key, *(f"--null {name}" for name in given["nulls"])), forgotten)
        click.secho(_line(fresh), dim=True, err=True)
        if verdict is not None and verdict.state != "there":
            click.secho(_warning(verdict, timeout), fg="yellow", err=True)
    if row is None or (verdict is not None and verdict.state == "waiting"):
        sys.exit(1)


def _show(
    row: dict[str, Any] | None, view: str, key: tuple[str, ...], forgotten: list[str]
) -> None:
    if row is None:
        click.echo(f"{view} has no row {' '.join(key)}", err=True)
        return
    width = max(map(len, row))
    for name, value in row.items():
        text = value if isinstance(value, str) else exact.dumps(value)
        gone = click.style("  (forgotten)", fg="yellow") if name in forgotten else ""
        click.echo(f"{click.style(name.ljust(width), fg='cyan')}  {text}{gone}")


def _line(fresh: dict[str, Any]) -> str:
    if fresh["revision"] is None:
        return "no batch is through yet"
    clock = f", clock {fresh['clock']}" if fresh["clock"] else ""
    behind = fresh["behind"]
    plural = "" if behind == 1 else "s"
    records = "" if behind is None else f", {behind:,} record{plural} behind the log"
    return f"revision {fresh['revision']} of {fresh['at']}{clock}{records}"


def _warning(verdict: Verdict, timeout: float) -> str:
    late = f" after {timeout:g} s" if verdict.state == "waiting" else ""
    return f"{verdict.state}{late}: {verdict.text}"
