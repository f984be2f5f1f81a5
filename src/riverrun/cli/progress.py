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
)

Tell = Callable[[int, int], None]
"""How much is done, of how much."""


def byte_bar() -> AbstractContextManager[Tell]:
    return _bar(DownloadColumn())


def count_bar() -> AbstractContextManager[Tell]:
    return _bar(MofNCompleteColumn())


@contextmanager
def _bar(column: ProgressColumn) -> Iterator[Tell]:
    console = Console(stderr=True)
    columns = (BarColumn(), column, TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("working")
        yield lambda done, total: progress.update(task, completed=done, total=total)
