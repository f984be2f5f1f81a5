"""`riverrun query`: SQL over views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

import click

from riverrun import exact
from riverrun.cli import options
from riverrun.cli.grid import print_grid
from riverrun.cli.revealed import Shown, cells, keys_of, rows_read
from riverrun.server.places import reader_of


@click.command("query")
@click.argument("sql")
@click.option("-n", "--limit", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@options.timeout_option("10 seconds", "How long it may take.")
@click.option(
    "--reveal", metavar="APP", help="Read what is personal, with the keys of the application APP."
)
@options.json_option
def command(sql: str, limit: int, timeout: timedelta, reveal: str | None, as_json: bool) -> None:
    """Ask views with SQL: one SELECT, in the dialect of the database that they are in (SQLite, or
    PostgreSQL where the settings say so). It changes nothing.

    \b
    riverrun query "SELECT * FROM per_country ORDER BY views DESC LIMIT 10"
    riverrun query "SELECT country, sum(views) AS views FROM per_page GROUP BY 1" --json
    """
    settings = options.settings()
    found = reader_of(settings).query(sql, seconds=timeout.total_seconds(), limit=limit)
    keys = keys_of(settings, reveal) if reveal else None
    rows = rows_read(keys, found.names, found.rows)
    if as_json:
        for row, forgotten in rows:
            gone = {"forgotten": forgotten} if forgotten else {}
            click.echo(exact.dumps(dict(zip(found.names, row, strict=True)) | gone, other=str))
    else:
        _show(found.names, rows)
    if found.more:
        click.secho(f"the first {limit:,} rows; --limit shows more", dim=True, err=True)


def _show(names: Sequence[str], rows: list[Shown]) -> None:
    numbers = {
        name
        for place, name in enumerate(names)
        if all(isinstance(row[place], int | float | Decimal | None) for row, _ in rows)
    }
    print_grid(names, [cells(names, row) for row in rows], numbers=numbers)
    click.secho(f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}", dim=True, err=True)
