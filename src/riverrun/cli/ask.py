"""`riverrun ask`: SQL over the live state of a running application."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.revealed import Shown, cells, keys_of, reveal_option, rows_read
from riverrun.errors import InputError
from riverrun.questions.answer import Answer


@click.command("ask")
@click.argument("name", metavar="APP.STEP")
@click.argument("sql")
@options.timeout_option("30 seconds", "How long to wait for the answer.")
@reveal_option
@options.brokers_option
@options.json_option
def command(name: str, sql: str, timeout: timedelta, **given: Any) -> None:
    """Ask the running application APP for rows of its table STEP, with one SELECT of DuckDB's SQL.

    The table is called as the step is, or rows. The answer is of one point of the stream, which it
    names: after a batch, for all keys. It changes nothing, and needs no view.

    \b
    riverrun ask shop.per_user "SELECT * FROM per_user WHERE user = 'ann'"
    riverrun ask shop.per_user "SELECT count(*) AS users, max(spent) AS most FROM rows"
    riverrun ask shop.per_user "FROM rows ORDER BY spent DESC LIMIT 10" --json
    """
    from riverrun.asking import ask  # noqa: PLC0415 - help needs no client

    if not name.strip() or not sql.strip():
        raise InputError("a question is one SELECT to a step", hint="riverrun ask --help")
    found = ask(name, sql, timeout=timeout, brokers=given["brokers"])
    application = name.partition(".")[0]
    keys = keys_of(options.settings(), application) if given["reveal"] else None
    said = found.as_json()
    rows = rows_read(keys, found.columns, [row.values() for row in said["rows"]])
    if given["as_json"]:
        gone = [forgotten for _, forgotten in rows]
        told = {"forgotten": gone} if any(gone) else {}
        read = [dict(zip(found.columns, row, strict=True)) for row, _ in rows]
        say_json({**said, "rows": read, **told})
    else:
        _show(found, rows)


def _show(found: Answer, rows: list[Shown]) -> None:
    numbers = {
        name
        for name in found.columns
        if all(isinstance(row[name], int | float | Decimal | None) for row in found.rows)
    }
    print_grid(found.columns, [cells(found.columns, row) for row in rows], numbers=numbers)
    counted = f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}"
    point = f"after batch {found.point.batch} of {found.as_json()['at']}, clock {found.clock}"
    click.secho(f"{counted}, {point}", dim=True, err=True)
