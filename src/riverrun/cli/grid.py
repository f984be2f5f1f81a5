"""Tables of text that commands print."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

from rich.console import Console
from rich.table import Table


def print_grid(
    columns: Iterable[str], rows: Iterable[tuple[str, ...]], *, numbers: Collection[str]
) -> None:
    """`numbers` names the columns that stand to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # a pipe has no width: names are not broken for it
    width = None if sys.stdout.isatty() else 200
    Console(highlight=False, markup=False, width=width).print(table)
