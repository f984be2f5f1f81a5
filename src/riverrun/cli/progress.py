"""Progress bars of commands that may take long: on a terminal only, and gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Tell = Callable[[int, int], None]
"""How much is done, of how much."""

LINE = 10.0
"""Seconds between two lines."""


def byte_bar() -> AbstractContextManager[Tell]:
    return _bar(DownloadColumn())


def count_bar() -> AbstractContextManager[Tell]:
    return _bar(MofNCompleteColumn())


def long_bar() -> AbstractContextManager[Tell]:
    """With the time that is to go."""
    return _bar(MofNCompleteColumn(), TimeRemainingColumn())


def bar_or_lines(what: str) -> AbstractContextManager[Tell]:
    """The same; off a terminal a line now and then: `what` is counted."""
    if Console(stderr=True).is_terminal:
        return long_bar()
    return nullcontext(Lines(what))


class Lines:
    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.last: tuple[float, int] | None = None
        """When the last line was told, and what was done by then. The first batches are slow, and
        another run may have begun."""

    def __call__(self, done: int, total: int) -> None:
        now = self.clock()
        told_at, before = self.last = self.last or (now, done)
        if now - told_at < LINE or not total:
            return
        self.last = now, done
        rate = (done - before) / (now - told_at)
        to_go = f", about {(total - done) / rate:,.0f} s to go" if rate else ""
        text = f"{done:,} of {total:,} {self.what}, {done / total:.0%}{to_go}"
        click.echo(text, err=True)


@contextmanager
def _bar(*own: ProgressColumn) -> Iterator[Tell]:
    console = Console(stderr=True)
    columns = (BarColumn(), *own, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("working")
        yield lambda done, total: progress.update(task, completed=done, total=total)
