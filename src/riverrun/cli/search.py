"""`riverrun search`: look for rows in a search index, or watch a stream for those that come."""

from __future__ import annotations

import sys
from datetime import date, datetime, time
from time import perf_counter
from typing import Any

import click

from riverrun import exact
from riverrun.cli import options
from riverrun.cli.queried import Queried
from riverrun.search import Found, Hit, Index

LONGEST = 100
"""Characters of a value that the terminal shows."""
COLOURED, PLAIN = ("\033[1;33m", "\033[0m"), ("**", "**")
"""What stands before and after a word that was found."""


class _Search(click.Group):
    """What is no command of it is the name of an index."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if args and args[0] in own else ["index", *args])


@click.group("search", cls=_Search)
def command() -> None:
    """Look for rows in a search index, or watch a running application for documents that come.

    \b
    riverrun search articles 'stream processing'
    riverrun search watch news 'kafka "exactly once"'
    """


@command.command("index", cls=Queried)
@click.argument("index")
@click.argument("query")
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), default=10, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many hits first.")
@click.option(
    "-f", "--field", "fields", multiple=True, metavar="COLUMN", help="Look for words in it only."
)
@click.option("-c", "--column", "columns", multiple=True, metavar="COLUMN", help="Show it only.")
@options.json_option
def index(index: str, query: str, **given: Any) -> None:
    """Look for QUERY in INDEX, the name of a search index or its folder. The best hits come first.

    All words must be in a row: `OR`, `NOT`, `-` and brackets say otherwise. "A phrase" is in
    quotes, a column is named before a colon. `word*` is a beginning, `word~` one that is nearly
    so. Numbers and times are compared: `price:>10`, `at:[2026-01-01 TO 2026-02-01]`.

    \b
    riverrun search articles 'stream processing'
    riverrun search articles '"exactly once" author:ann -draft:true' --limit 3
    riverrun search articles 'title:kafk* price:[5 TO 20]' --json
    """
    begun = perf_counter()
    fields = given["fields"] or None
    found = Index(index).search(query, limit=given["limit"], offset=given["offset"], fields=fields)
    seconds = perf_counter() - begun
    if given["as_json"]:
        hits = [_line(hit, given["columns"]) for hit in found.hits]
        click.echo(exact.dumps({"total": found.total, "hits": hits}, other=_iso))
        return
    for hit in found.hits:
        _show(hit, given["columns"])
    click.secho(_summary(found, given["offset"], seconds), dim=True, err=True)


@command.command("watch", cls=Queried)
@click.argument("app")
@click.argument("query")
@click.option("--where", metavar="SQL", help="A condition over the document's columns.")
@click.option("--step", metavar="NAME", help="The step with queries, if there are several.")
@click.option("-n", "--limit", type=click.IntRange(1), help="End after so many hits.")
@click.option("-c", "--column", "columns", multiple=True, metavar="COLUMN", help="Show it only.")
@options.brokers_option
@options.json_option
def watch(app: str, query: str, **given: Any) -> None:
    """Show the documents of the application APP that fit QUERY, as they come, until Ctrl-C.

    The query is added to those of the program, and removed at the end. What it finds is shown here,
    and is not among the program's results. See docs/search-streams.md.

    \b
    riverrun search watch news 'kafka "exactly once"'
    riverrun search watch shop 'lamp price:<20' --where "seller <> 'me'" --json
    """
    from riverrun.cli.watched import Watched  # noqa: PLC0415 - no broker for an index

    columns, as_json, limit = (given.pop(name) for name in ("columns", "as_json", "limit"))
    with Watched(app, query, **given) as hits:
        click.secho(f"watching {app} from {hits.effective} on; Ctrl-C ends it", dim=True, err=True)
        for number, hit in enumerate(hits, start=1):
            if as_json:
                click.echo(exact.dumps(hit))
            else:
                _show_watched(hit, columns)
            if number == limit:
                break


def _show_watched(hit: dict[str, Any], columns: tuple[str, ...]) -> None:
    row = {n: value for n, value in hit["row"].items() if not columns or n in columns}
    shown = [f"{click.style(n, fg='cyan')} {_short(v)}" for n, v in row.items() if v is not None]
    score = f"{hit['score']:6.0f}"
    click.echo(f"{click.style(score, dim=True)}  {'  '.join(shown)}")
    if hit["fragment"]:
        before, after = COLOURED if sys.stdout.isatty() else PLAIN
        parts = " ".join(hit["fragment"].split()).split("**")
        marked = "".join(f"{before}{p}{after}" if n % 2 else p for n, p in enumerate(parts))
        click.echo(f"        {click.style(', '.join(hit['fields']), fg='cyan')} {marked}")


def _line(hit: Hit, columns: tuple[str, ...]) -> dict[str, Any]:
    row = {name: value for name, value in hit.row.items() if not columns or name in columns}
    marked = {name: each.marked() for name, each in hit.fragments.items()}
    return {"score": round(hit.score, 4), "row": row, "highlights": marked}


def _show(hit: Hit, columns: tuple[str, ...]) -> None:
    """Columns without a hit on one line, then each that has one, with its words marked."""
    chosen = {name: value for name, value in hit.row.items() if not columns or name in columns}
    plain = [
        f"{click.style(name, fg='cyan')} {_short(value)}"
        for name, value in chosen.items()
        if value is not None and name not in hit.fragments
    ]
    click.echo(f"{click.style(f'{hit.score:6.2f}', dim=True)}  {'  '.join(plain)}")
    before, after = COLOURED if sys.stdout.isatty() else PLAIN
    for name, fragment in hit.fragments.items():
        if name in chosen:
            text = fragment.marked(before, after)
            click.echo(f"        {click.style(name, fg='cyan')} {' '.join(text.split())}")


def _iso(value: Any) -> str:
    """Times are in UTC."""
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else exact.dumps(value, other=_iso).strip('"')
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _summary(found: Found, offset: int, seconds: float) -> str:
    if not found.total:
        return f"nothing found, {seconds * 1000:.0f} ms"
    shown = f"{offset + 1} to {offset + len(found.hits)} of " if found.hits else "none of "
    rows = "row" if found.total == 1 else "rows"
    return f"{shown}{found.total:,} {rows}, {seconds * 1000:.0f} ms"
