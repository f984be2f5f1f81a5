"""Progress bars of commands that may take long: on a terminal only, and gone when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

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


def byte_bar() -> AbstractContextManager[Tell]:
    return _bar(DownloadColumn())


def count_bar() -> AbstractContextManager[Tell]:
    return _bar(MofNCompleteColumn())


def long_bar() -> AbstractContextManager[Tell]:
    """With the time that is to go."""
    return _bar(MofNCompleteColumn(), TimeRemainingColumn())


@contextmanager
def _bar(*own: ProgressColumn) -> Iterator[Tell]:
    console = Console(stderr=True)
    columns = (BarColumn(), *own, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("working")
        yield lambda done, total: progress.update(task, completed=done, total=total)
