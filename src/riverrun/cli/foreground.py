"""Not a command: what commands share that run a program until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from riverrun.app import App
from riverrun.cli import log, say_json
from riverrun.cli.live import LiveView, LogView, Stopping
from riverrun.config import LogForm, Poison, Settings

if TYPE_CHECKING:
    from riverrun.runtime.launch import Options

F = TypeVar("F", bound=Callable[..., Any])
MADE_OF = ("recent", "given", "fields", "own")
ON_ITS_OWN = "--close goes with --once: a program that runs on closes by its clock"


class Logged(click.Command):
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: Any,
    ) -> click.Context:
        """Errors of the command line are told as all others are."""
        named = log.asked(args) or os.environ.get("RIVERRUN_LOG")
        log.begin("json" if named == "json" else "text")
        return super().make_context(info_name, args, parent, **more)


OPTIONS = (
    click.option("--brokers", help="Kafka's address; the embedded broker if not given."),
    click.option("--master", help="Spark's master, local[*] if not given."),
    click.option(
        "--environment", metavar="same|FILE",
        help="The Python of a cluster's executors; see docs/cluster.md.",
    ),
    click.option("--fresh", is_flag=True, help="Forget the checkpoint and start over."),
    click.option(
        "--keep-written", is_flag=True,
        help="Keep the results of a half-written batch, though the program has changed since.",
    ),
    click.option(
        "--restart", is_flag=True, help="Start again what fails or is killed, after a while."
    ),
    click.option(
        "--poison", type=click.Choice(get_args(Poison)), default="stop", show_default=True,
        help="With --restart: what becomes of a record that ends every run.",
    ),
    click.option("--search", type=click.Choice(get_args(Poison)), hidden=True),
    click.option("--once", is_flag=True, help="Read what there is, then stop."),
    click.option(
        "--close", is_flag=True,
        help="With --once: in the end windows close, and rows that wait leave.",
    ),
    click.option(
        "--max-events", type=click.IntRange(min=1), default=500_000, show_default=True,
        help="Most events per batch.",
    ),
    click.option(
        "--batch-time", default="5 seconds", show_default=True, metavar="DURATION",
        help="How long a batch should take; its size follows.",
    ),
    click.option("--clocks", "every_clock", is_flag=True, help="Show the clock of every step."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print each batch's status as one line of JSON."
    ),
    click.option(
        "--log", "form", type=click.Choice(get_args(LogForm)),
        help="How to tell what happens on standard error; text if nothing says otherwise.",
    ),
)  # fmt: skip


def run_options(command: F) -> F:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def refuse_close(options: Mapping[str, Any]) -> None:
    if options["close"] and not options["once"]:
        raise click.UsageError(ON_ITS_OWN)


def view_of(application: str, *, as_json: bool, every_clock: bool) -> LiveView:
    to = log.current()
    if to is not None:
        return LogView(application, to, rows=not as_json)
    return LiveView(application, quiet=as_json, every_clock=every_clock)


def in_foreground(
    app: App,
    settings: Settings,
    chosen: Options,
    view: LiveView,
    stopping: Stopping,
    *,
    as_json: bool,
    served: AbstractContextManager[None] | None = None,
) -> None:
    """Runs a program, and shows each batch, until it ends or is stopped."""
    from riverrun.runtime.poison import search  # noqa: PLC0415 - Spark only when needed
    from riverrun.runtime.run import started  # noqa: PLC0415

    if chosen.search is not None:
        with view:
            search(app, settings, chosen, view.tell)
        return
    with view, served or nullcontext(), started(app, settings, chosen, view.tell) as running:
        stopping.lets_finish(running.drain)
        for status in running.watch():
            view.warn(status)
            if as_json:
                say_json(_told(status))
            view.show(status)


def _told(status: dict[str, Any]) -> dict[str, Any]:
    """Without what alerts and warnings are made of."""
    return {name: fact for name, fact in status.items() if name not in MADE_OF}
