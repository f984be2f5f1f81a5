"""`riverrun queue`: work on a queue, and see how it stands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_module
from riverrun.durations import duration_text
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.queues.counts import Counts
from riverrun.queues.standing import Standing, standing
from riverrun.queues.worker import Worker

EVERY = 5.0
"""Seconds between two lines that tell how the work goes."""


@click.group("queue")
def command() -> None:
    """Messages that workers take one by one.

    `riverrun produce` adds some, `riverrun dead` has those that failed.

    \b
    riverrun queue work jobs.py
    riverrun queue status jobs --group workers
    riverrun dead list workers
    """


@command.command("status")
@click.argument("topic", type=options.TopicName())
@click.option("--group", required=True, metavar="NAME", help="The group of the workers.")
@options.brokers_option
@options.json_option
def status(topic: str, group: str, brokers: str | None, as_json: bool) -> None:
    """Show what waits in TOPIC for a group of workers, who works, and what has died.

    \b
    riverrun queue status jobs --group workers
    riverrun queue status jobs --group workers --json
    """
    found = standing(kafka.client(options.settings(brokers)), topic, group)
    if as_json:
        say_json(_as_dict(found))
        return
    lock = duration_text(round(found.lock * 1_000_000))
    plural, letters = ("" if n == 1 else "s" for n in (found.members, found.dead["open"]))
    click.echo(
        f"{topic} of {group}: {found.members} worker{plural}, {_number(found.behind)} waiting or in"
        f" hand, {found.dead['open']:,} dead letter{letters}; lock {lock},"
        f" {found.deliveries} deliveries"
    )
    rows = [
        (f"{topic}/{each.number}", _number(each.start), _number(each.behind))
        for each in found.partitions
    ]
    columns = ("partition", "settled up to", "waiting or in hand")
    print_grid(columns, rows, numbers=set(columns[1:]))


@command.command("work")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--function", "name", metavar="NAME", help="Which worker, if there are several.")
@options.timeout_option(None, "End when no message has come for so long.", name="--idle", none=True)
@options.json_option
def work(program: Path, name: str | None, idle: timedelta | None, as_json: bool) -> None:
    """Run a worker of PROGRAM, a Python file, until Ctrl-C or SIGTERM.

    What is in hand is finished first; the second Ctrl-C releases it. The exit code is 0.

    \b
    riverrun queue work jobs.py
    riverrun queue work jobs.py --function resize
    riverrun queue work jobs.py --idle "30 seconds" --json
    """
    worker = _worker(load_module(program), name)
    with _told(worker.counts, quiet=as_json):
        counts = worker.run(idle=idle)
    if as_json:
        say_json(counts.as_dict())
    else:
        click.echo(_line(counts))


def _worker(module: ModuleType, name: str | None) -> Worker:
    found = {key: each for key, each in vars(module).items() if isinstance(each, Worker)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name is None or name not in found:
        raise InputError(
            f"the program has no worker {name!r}"
            if name
            else "it is not said which worker is meant",
            where=module.__file__,
            got=f"workers: {', '.join(found) or 'none'}",
            hint="--function NAME chooses one; a worker is a function under @queue.worker()",
        )
    return found[name]


@contextmanager
def _told(counts: Counts, *, quiet: bool) -> Iterator[None]:
    """A line now and then, when something has happened."""
    over = threading.Event()

    def tell() -> None:
        last = _line(counts)
        while not over.wait(EVERY):
            if (line := _line(counts)) != last and not quiet:
                click.echo(line, err=True)
                last = line

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _line(counts: Counts) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.as_dict().items())


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _as_dict(found: Standing) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "group": found.group,
        "state": found.state,
        "workers": found.members,
        "behind": found.behind,
        "lock_seconds": found.lock,
        "deliveries": found.deliveries,
        "dead": dict(found.dead),
        "partitions": [
            {"partition": each.number, "settled_up_to": each.start, "behind": each.behind}
            for each in found.partitions
        ],
    }
