"""`riverrun query`: SQL over views."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from riverrun import exact
from riverrun.cli import options
from riverrun.cli.grid import print_grid
from riverrun.server.places import reader_of
from riverrun.views.connections import Table


@click.command("query")
@click.argument("sql")
@click.option("-n", "--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True,
    metavar="SECONDS", help="How long it may take.",
)  # fmt: skip
@options.json_option
def command(sql: str, limit: int, timeout: float, as_json: bool) -> None:
    """Ask views with SQL: one SELECT, in the dialect of the database that they are in (SQLite, or
    PostgreSQL where the settings say so). It changes nothing.

    \b
    riverrun query "SELECT * FROM per_country ORDER BY views DESC LIMIT 10"
    riverrun query "SELECT country, sum(views) AS views FROM per_page GROUP BY 1" --json
    """
    found = reader_of(options.settings()).query(sql, seconds=timeout, limit=limit)
    if as_json:
        for row in found.rows:
            click.echo(exact.dumps(dict(zip(found.names, row, strict=True)), other=str))
    else:
        _show(found)
    if found.more:
        click.secho(f"the first {limit:,} rows; --limit shows more", dim=True, err=True)


def _show(found: Table) -> None:
    numbers = {
        name
        for place, name in enumerate(found.names)
        if all(isinstance(row[place], int | float | Decimal | None) for row in found.rows)
    }
    rows = [tuple(map(_text, row)) for row in found.rows]
    print_grid(found.names, rows, numbers=numbers)
    click.secho(f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}", dim=True, err=True)


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
