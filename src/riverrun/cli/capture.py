"""`riverrun capture`: captures of databases, how far they are, and what can be asked of them."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click

from riverrun.capture.capturer import Capturer, CaptureState, TableState
from riverrun.capture.known import capture_named, captures
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.progress import count_bar
from riverrun.errors import InputError, JobError

WAIT = 0.2
TAKES_NOTE = 20.0
"""Seconds until a running capture has heard what is asked."""


@click.group("capture", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Tables of databases as topics: list captures, look at one, pause, resume, remove it.

    A program that says app.capture(…) starts them; they go on without it.

    \b
    riverrun capture list
    riverrun capture status shop
    riverrun capture snapshot shop public.users
    riverrun capture remove shop --yes
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=False)


@command.command("list")
@options.json_option
def list_(as_json: bool) -> None:
    """List captures with what they are at.

    \b
    riverrun capture list
    riverrun capture list --json
    """
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    states = [each.state() for each in captures(options.settings())]
    if as_json:
        say_json([asdict(state) for state in states])
    elif not states:
        click.echo("nothing is captured (a program with app.capture(…) begins it)")
    else:
        rows = [
            (s.name, s.doing, s.database, str(len(s.tables)), _bytes(s.behind_bytes))
            for s in states
        ]
        columns = ("capture", "state", "database", "tables", "behind")
        print_grid(columns, rows, numbers=("tables", "behind"))


@command.command("status")
@click.argument("name", required=False)
@click.option("--wait", is_flag=True, help="Wait, with a progress bar, until snapshots are done.")
@options.json_option
def status(name: str | None, wait: bool, as_json: bool) -> None:
    """Show how far the capture NAME is: position, lag, and each table.

    \b
    riverrun capture status
    riverrun capture status shop --wait
    riverrun capture status shop --json
    """
    capture = capture_named(options.settings(), name)
    if wait:
        _await_snapshots(capture, quiet=as_json)
    state = capture.state()
    if as_json:
        say_json(asdict(state))
        return
    click.echo(f"{state.name}: {state.doing}, by {state.by}, from {state.database}")
    if state.position is not None:
        click.echo(f"position {state.position}, slot {state.slot}, behind {_behind(state)}")
    rows = [(t.table, t.doing, f"{t.rows:,}", _share(t), t.topic) for t in state.tables]
    if rows:
        click.echo()
        columns = ("table", "state", "rows of snapshot", "done", "topic")
        print_grid(columns, rows, numbers=("rows of snapshot", "done"))
    for word, text in (("warning", state.warning), ("error", state.error)):
        if text:
            click.echo(f"\n{word}: {text}")


def _await_snapshots(capture: Capturer, *, quiet: bool) -> None:
    with count_bar() as tell:
        while True:
            state = capture.state()
            if state.doing in ("failed", "stopped"):
                raise JobError(
                    f"the capture {state.name!r} does not go on",
                    got=state.error or state.doing,
                    hint=f"riverrun capture resume {state.name}" if state.error is None else None,
                )
            for table in state.tables:
                if table.error is not None:
                    raise JobError("a table cannot be captured", where=table.table, got=table.error)
            if state.tables and all(table.loaded for table in state.tables):
                return
            reading = [table for table in state.tables if not table.loaded]
            if not quiet:
                tell(sum(t.rows for t in reading), sum(t.rows_expected or t.rows for t in reading))
            time.sleep(WAIT)


@command.command("pause")
@click.argument("name", required=False)
@options.json_option
def pause(name: str | None, as_json: bool) -> None:
    """Write nothing until `riverrun capture resume`. The database keeps its log meanwhile.

    \b
    riverrun capture pause shop
    """
    capture = capture_named(options.settings(), name)
    capture.pause()
    _await(capture, lambda state: state.doing in ("paused", "stopped"))
    _said(capture, as_json=as_json)


@command.command("resume")
@click.argument("name", required=False)
@options.json_option
def resume(name: str | None, as_json: bool) -> None:
    """Go on, after a pause or when the process was stopped.

    \b
    riverrun capture resume shop
    """
    capture = capture_named(options.settings(), name)
    capture.resume()
    _await(capture, lambda state: state.doing not in ("paused", "stopped", "starting"))
    _said(capture, as_json=as_json)


@command.command("snapshot")
@click.argument("names", nargs=-1, required=True, metavar="[NAME] TABLE")
@options.json_option
def snapshot(names: tuple[str, ...], as_json: bool) -> None:
    """All rows of TABLE once more, while changes go on.

    It also takes a table as it is that was refused because its columns have changed.

    \b
    riverrun capture snapshot public.users
    riverrun capture snapshot shop public.users
    """
    if len(names) > 2:
        raise InputError("one table at a time", got=" ".join(names))
    capture = capture_named(options.settings(), names[0] if len(names) == 2 else None)
    capture.snapshot(names[-1])
    if as_json:
        say_json(asdict(capture.state()))
    else:
        click.echo(f"{capture.name}: all rows of {names[-1]} are read once more")
        click.echo(f"how far it is: riverrun capture status {capture.name} --wait", err=True)


@command.command("remove")
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.json_option
def remove(name: str | None, yes: bool, as_json: bool) -> None:
    """End a capture: its slot and publication are dropped. Topics stay.

    A program that captures the same tables later begins with a snapshot.

    \b
    riverrun capture remove shop --yes
    """
    capture = capture_named(options.settings(), name)
    if not yes:
        click.confirm(f"end the capture {capture.name}?", abort=True)
    capture.remove()
    if as_json:
        say_json({"capture": capture.name, "removed": True})
    else:
        click.echo(f"the capture {capture.name} is removed; its topics stay")


def _await(capture: Capturer, done: Any) -> None:
    give_up = time.monotonic() + TAKES_NOTE
    while not done(capture.state()) and time.monotonic() < give_up:
        time.sleep(WAIT)


def _said(capture: Capturer, *, as_json: bool) -> None:
    state = capture.state()
    if as_json:
        say_json(asdict(state))
    else:
        click.echo(f"{state.name}: {state.doing}")


def _behind(state: CaptureState) -> str:
    seconds = "" if state.behind_seconds is None else f", {state.behind_seconds:,.1f} s"
    return _bytes(state.behind_bytes) + seconds


def _bytes(count: int | None) -> str:
    if count is None:
        return "unknown"
    return f"{count:,} B" if count < 1 << 20 else f"{count / (1 << 20):,.1f} MB"


def _share(table: TableState) -> str:
    if table.loaded:
        return "100%"
    expected = table.rows_expected
    return f"{min(table.rows / expected, 0.99):.0%}" if expected else ""
